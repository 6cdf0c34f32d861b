"""What stands between the network and the routes, for every request the same.

In this order: the size of the head, the Host and Origin, who asks, how often, and how much and
how slowly a body may come. Nothing of a body is read before the caller is known.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowport.entrypoints.http.access import identify
from knowport.entrypoints.http.problems import Problem
from knowport.entrypoints.http.rates import RateLimiter
from knowport.pipelines.access import AccessKeys
from knowport.settings.server import ServerSettings

# They tell nothing, and whoever watches a container asks by address and has no key.
PROBES = frozenset({"/healthz", "/readyz"})
PUBLIC = PROBES | {"/openapi.json"}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
# Only a document is large; everything else is a question.
LARGE_BODIES = frozenset({"/v1/documents"})
SMALL_BODY = 2**20
MAX_HEADERS = 100
_HOST = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|([\w.\-]+))(?::\d*)?")


class Wall:
    """Refuses by raising Problem, for whoever stands outside to tell."""

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, keys: AccessKeys, *, loopback: bool
    ) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys
        self._hosts = _allowed(settings.allowed_hosts, loopback=loopback)
        self._rates = RateLimiter(settings.rate_per_second, settings.rate_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        self._check_head(scope)
        if path not in PROBES:
            self._check_host(scope)
        if path not in PUBLIC:
            caller = identify(scope, self._keys)
            scope["state"]["caller"] = caller
            self._rates.take(caller.key_id)
        await self._app(scope, self._bounded(scope, receive), send)

    def _check_head(self, scope: Scope) -> None:
        headers = scope["headers"]
        size = sum(len(name) + len(value) + 4 for name, value in headers)
        size += len(scope.get("raw_path", b"")) + len(scope["query_string"])
        if size > self._settings.max_header_bytes or len(headers) > MAX_HEADERS:
            raise Problem(
                431,
                "head_too_large",
                f"The head of the request is larger than {self._settings.max_header_bytes} bytes "
                f"or has more than {MAX_HEADERS} headers.",
                remedy="Send less in the address and in headers.",
            )

    def _check_host(self, scope: Scope) -> None:
        if self._hosts is None:
            return
        headers = scope["headers"]
        hosts = [_host(value) for name, value in headers if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise Problem(
                403,
                "host_not_allowed",
                "The Host header names none of the allowed hosts.",
                remedy="Ask for localhost, or add the name to server.allowed_hosts.",
            )
        for name, value in headers:
            if name == b"origin" and _origin(value) not in self._hosts:
                raise Problem(
                    403,
                    "origin_not_allowed",
                    "Pages of that origin may not ask this service.",
                    remedy="Add the host of the page to server.allowed_hosts.",
                )

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """``receive`` that counts what really comes, whatever the head of the request said."""
        large = scope["path"] in LARGE_BODIES
        limit = self._settings.max_body_bytes if large else SMALL_BODY
        limit = min(limit, self._settings.max_body_bytes)
        if _declared(scope) > limit:
            raise _too_large(limit)
        seconds = self._settings.body_timeout
        deadline = asyncio.get_running_loop().time() + seconds
        taken, complete = 0, False

        async def bounded() -> Message:
            nonlocal taken, complete
            if complete:  # what comes now is the end of the connection, and may take its time
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise Problem(
                    408,
                    "body_timeout",
                    f"The body did not arrive within {seconds:g} s.",
                    remedy="Send it faster, or raise server.body_timeout.",
                    transient=True,
                ) from None
            taken += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if taken > limit:
                raise _too_large(limit)
            return message

        return bounded


def _allowed(names: Sequence[str], *, loopback: bool) -> frozenset[str] | None:
    """Host names that may be asked for; None for any."""
    own = LOOPBACK_NAMES if loopback else ()
    return frozenset(name.lower().strip("[]") for name in (*own, *names)) or None


def _host(value: bytes) -> str:
    """The host of a Host header without its port; '' for what is none."""
    parts = _HOST.fullmatch(value)
    return (parts[1] or parts[2]).decode().lower() if parts else ""


def _origin(value: bytes) -> str:
    """The host of an Origin header; '' for ``null`` and for what is none."""
    try:
        return urlsplit(value.decode("ascii")).hostname or ""
    except ValueError:
        return ""


def _declared(scope: Scope) -> int:
    """Content-Length, 0 where there is none."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _too_large(limit: int) -> Problem:
    return Problem(
        413,
        "too_large",
        f"The body has more than {limit} bytes.",
        remedy="Send less; for documents server.max_body_bytes is the limit.",
    )
