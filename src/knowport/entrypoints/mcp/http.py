"""The streamable HTTP transport, mounted into the HTTP service.

Host, Origin, access key, rate and size of a request were checked before it comes here, as those of
every other route, and the scope is the caller's. There are no MCP sessions: every request stands
alone, so any replica may answer it, and no session id lets one key use what another opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from knowport.client import ChunkText, DocumentPage, DocumentText
from knowport.core.projection import project
from knowport.entrypoints.http.access import Caller
from knowport.entrypoints.http.problems import Problem
from knowport.entrypoints.http.service import Service
from knowport.entrypoints.mcp.backends import read_chunk, read_document, read_page
from knowport.entrypoints.mcp.server import Context, build_server
from knowport.errors import KnowportError
from knowport.model import Answer

PATH = "/mcp"
T = TypeVar("T")


class Refused(KnowportError):
    """What the service answers with a problem: too many wait, or it took too long."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem.detail), remedy=problem.remedy)
        self.code = problem.code
        self.transient = problem.transient


class ServiceBackend:
    """What the service has for one caller."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self._service = service
        self._caller = caller

    async def lookup(self, query: str, category: str | None) -> Answer:
        try:
            result = await self._service.lookup(self._caller, query, category=category, mode=None)
        except Problem as problem:
            raise Refused(problem) from None
        return project(result)

    async def chunk(self, key: str) -> ChunkText:
        return await self._read(lambda: read_chunk(self._service.kb, key, self._scope))

    async def document(self, doc_id: str) -> DocumentText:
        return await self._read(lambda: read_document(self._service.kb, doc_id, self._scope))

    async def documents(self, cursor: str | None, limit: int) -> DocumentPage:
        return await self._read(lambda: read_page(self._service.kb, cursor, limit, self._scope))

    @property
    def _scope(self) -> str:
        return self._service.scope(self._caller)

    async def _read(self, call: Callable[[], T]) -> T:
        try:
            return await self._service.read(call)
        except Problem as problem:
            raise Refused(problem) from None


class McpEndpoint:
    """An ASGI application for one path."""

    def __init__(self, service: Service, path: str) -> None:
        def backend_of(context: Context) -> ServiceBackend:
            assert isinstance(context.request, Request)  # what the transport hands over
            return ServiceBackend(service, context.request.state.caller)

        server = build_server(backend_of, max_bytes=service.kb.settings.mcp.max_bytes)
        self.manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
        self.route = Route(path, self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route  # logs and figures name requests by it
        if scope["method"] != "POST":  # there is nothing that the server says on its own
            raise Problem(
                405,
                "method_not_allowed",
                "MCP takes POST only here.",
                remedy="Use a client that speaks streamable HTTP.",
                headers={"Allow": "POST"},
            )
        await self.manager.handle_request(scope, receive, send)


def mount(app: Starlette, service: Service, *, path: str = PATH) -> None:
    """Serve MCP at a path of an application, for as long as that runs."""
    endpoint = McpEndpoint(service, path)
    app.router.routes.append(endpoint.route)
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: Any) -> AsyncIterator[Any]:
        async with outer(running) as state, endpoint.manager.run():
            yield state

    app.router.lifespan_context = lifespan
