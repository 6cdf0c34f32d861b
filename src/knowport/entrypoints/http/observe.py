"""Every request seen from outside: its id, its span, its line in the log, its figures, and
whatever error came through, told as a problem document.

A request's log line names the route and never the address that was asked, because ids and queries
stand in it.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from http import HTTPStatus

import structlog
from opentelemetry import trace
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowport.core.redaction import Redactor
from knowport.entrypoints.http.metrics import Metrics
from knowport.entrypoints.http.problems import MEDIA_TYPE, Problem, as_problem

_LOG = structlog.get_logger("knowport.http")
_TRACER = trace.get_tracer("knowport")
_ID = re.compile(rb"[A-Za-z0-9._\-]{1,64}")
UNMATCHED = "(unmatched)"
CLIENT_GONE = 499


class Observed:
    """The outermost layer of the service. ``draining`` tells whether it is about to end."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, redact: Redactor, draining: Callable[[], bool]
    ) -> None:
        self._app, self._metrics = app, metrics
        self._redact, self._draining = redact, draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope, self._redact)
        scope["state"]["request_id"] = request_id
        reply = _Reply(send, request_id, self._draining)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        with _TRACER.start_as_current_span(
            "knowport.http", record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                await self._app(scope, receive, reply.send)
            except ClientDisconnect:
                reply.status = reply.status or CLIENT_GONE
            except Exception as error:  # noqa: BLE001  # told as a problem, logged if it is ours
                await self._tell(error, reply)
            route = _route(scope)
            status = reply.status or CLIENT_GONE
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", status)
            span.set_attribute("knowport.request_id", request_id)
        seconds = time.perf_counter() - started
        self._metrics.replied(_method(scope), route, status, seconds)
        caller = scope["state"].get("caller")
        _LOG.info(
            "request",
            method=_method(scope),
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            key_id=caller.key_id if caller else "",
            client=scope["client"][0] if scope.get("client") else "",
        )

    async def _tell(self, error: Exception, reply: _Reply) -> None:
        problem = as_problem(error)
        note_problem(problem, error, self._metrics)
        if reply.complete:
            return
        if reply.status:  # it is too late to say anything; what was begun is cut off
            raise error
        await send_problem(problem, reply.request_id, self._redact, reply.send)


class _Reply:
    """``send`` that adds the headers of every reply, and remembers its status."""

    def __init__(self, send: Send, request_id: str, draining: Callable[[], bool]) -> None:
        self._send, self._draining = send, draining
        self.request_id = request_id
        self.status = 0
        self.complete = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [
                *message.get("headers", []),
                (b"x-request-id", self.request_id.encode()),
                (b"x-content-type-options", b"nosniff"),
            ]
            if self._draining():  # the next request should go to who is still there
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
        await self._send(message)


async def send_problem(problem: Problem, request_id: str, redact: Redactor, send: Send) -> None:
    """Send a problem document as the whole reply."""
    body = problem.body(request_id, redact)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((k.lower().encode(), v.encode()) for k, v in (problem.headers or {}).items()),
    ]
    await send({"type": "http.response.start", "status": problem.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def note_problem(problem: Problem, error: Exception, metrics: Metrics) -> None:
    """Count an error, and log it where the fault is on this side."""
    metrics.failed(problem.code)
    if problem.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
        _LOG.error("failed", code=problem.code, exc_info=error)
    elif problem.status_code > HTTPStatus.INTERNAL_SERVER_ERROR:
        _LOG.warning("failed", code=problem.code, detail=problem.detail)


def _request_id(scope: Scope, redact: Redactor) -> str:
    """The one that the client gave, if it is sane and no secret; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ID.fullmatch(value):
            given = str(value, "ascii")
            if redact(given) == given:
                return given
    return uuid.uuid4().hex


def _route(scope: Scope) -> str:
    """The pattern of the route, not the address: a label must have few values."""
    route = scope.get("route")
    return getattr(route, "path", None) or UNMATCHED


def _method(scope: Scope) -> str:
    known = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}
    return scope["method"] if scope["method"] in known else "other"
