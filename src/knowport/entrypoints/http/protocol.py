"""HTTP/1.1 as uvicorn speaks it, with time limits where it has none.

uvicorn waits for ever for the head of a request, answers what is no HTTP in plain text, drops a
reply whose client has closed its own side, and reads on without end what it has answered already.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from knowport.core.redaction import Redactor
from knowport.entrypoints.http.problems import MEDIA_TYPE, Problem
from knowport.settings.server import ServerSettings

# Seconds in which the rest of a body may come that was answered before its end.
LINGER = 5.0
_PLAIN = Redactor()


def bounded_protocol(settings: ServerSettings) -> type[H11Protocol]:
    """The protocol class for these settings."""

    class Bounded(BoundedProtocol):
        header_timeout = settings.header_timeout
        max_connections = settings.max_connections

    return Bounded


class BoundedProtocol(H11Protocol):
    header_timeout = 10.0
    max_connections = 1_000
    _head_timer: asyncio.TimerHandle | None = None
    _linger_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(
                Problem(
                    503,
                    "too_many_connections",
                    f"More than {self.max_connections} connections are open.",
                    remedy="Try again later, or raise server.max_connections.",
                    transient=True,
                )
            )
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._linger_timer is not None and self.conn.their_state is not h11.SEND_BODY:
            self._linger_timer.cancel()
            self._linger_timer = None
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            self._watch_head()
        elif self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's may return it
        """A client that has sent a whole request and closed its own side still gets the reply."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return True
        return False

    def on_response_complete(self) -> None:
        unread = self.conn.their_state is h11.SEND_BODY
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._linger_timer = self.loop.call_later(LINGER, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            self._refuse(
                Problem(
                    431,
                    "head_too_large",
                    "The head of the request is too large.",
                    remedy="Send less in the address and in headers.",
                )
            )
        else:
            self._refuse(
                Problem(
                    400, "invalid_http", msg, remedy="Send a request as HTTP/1.1 has it (RFC 9112)."
                )
            )

    def _watch_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.header_timeout, self._head_too_slow)

    def _head_too_slow(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        self._refuse(
            Problem(
                408,
                "head_timeout",
                f"The head of a request did not arrive within {self.header_timeout:g} s.",
                remedy="Send it faster, or raise server.header_timeout.",
                transient=True,
            )
        )

    def _refuse(self, problem: Problem) -> None:
        """Reply outside of any request, and close."""
        body = problem.body(uuid.uuid4().hex, _PLAIN)
        head = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *((k.lower().encode(), v.encode()) for k, v in (problem.headers or {}).items()),
        ]
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            for event in (
                h11.Response(status_code=problem.status_code, headers=head),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _stop_timers(self) -> None:
        for timer in (self._head_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._linger_timer = None
