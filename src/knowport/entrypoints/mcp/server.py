"""The MCP server: one tool, and resources for documents and chunks, over any transport."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, TypeAlias

from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)

from knowport.client.tool import MAX_ERROR_CHARS, NAME, shortened
from knowport.entrypoints.mcp import tool
from knowport.entrypoints.mcp.backends import Backend
from knowport.entrypoints.mcp.reply import answer_result, error_result
from knowport.entrypoints.mcp.resources import PAGE, chunk_contents, document_contents
from knowport.entrypoints.mcp.uris import (
    CHUNK_TEMPLATE,
    DOCUMENT_TEMPLATE,
    parse_uri,
    uri_of,
)
from knowport.errors import InvalidInput, KnowportError, UnknownDocument

Context: TypeAlias = ServerRequestContext[Any, Any]
MAX_METHOD_CHARS = 200

log = logging.getLogger(__name__)


def build_server(backend_of: Callable[[Context], Backend], *, max_bytes: int) -> Server[Any]:
    """A server whose every request is answered by the backend that its context has a right to.

    ``max_bytes`` bounds each reply, as UTF-8.
    """

    async def list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool.definition()])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name != NAME:
            raise MCPError(
                INVALID_PARAMS,
                f"There is no tool {params.name[:100]!r}; there is only {NAME}.",
            )
        try:
            with _faults_named():
                query, category = tool.arguments(params.arguments)
                answer = await backend_of(context).lookup(query, category)
                return answer_result(answer, max_bytes=max_bytes)
        except KnowportError as error:
            return error_result(error)

    async def list_resources(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        cursor = params.cursor if params else None
        with _as_protocol_error():
            page = await backend_of(context).documents(cursor, PAGE)
        return ListResourcesResult(
            resources=[
                Resource(
                    uri=uri_of("document", info.doc_id),
                    name=info.doc_id,
                    title=info.title,
                    mime_type="text/plain",
                )
                for info in page.documents
            ],
            next_cursor=page.next_cursor,
        )

    async def list_templates(
        _: Context, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    name="chunk",
                    title="Excerpt by its id",
                    uri_template=CHUNK_TEMPLATE,
                    description="The text that a document_id of an answer stands for.",
                    mime_type="text/plain",
                ),
                ResourceTemplate(
                    name="document",
                    title="Document",
                    uri_template=DOCUMENT_TEMPLATE,
                    description="The text of a document, from the character offset on: a "
                    "document_id without its ending #chunk-N.",
                    mime_type="text/plain",
                ),
            ]
        )

    async def read_resource(
        context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        with _as_protocol_error(uri=params.uri):
            target = parse_uri(params.uri)
            backend = backend_of(context)
            if target.kind == "chunk":
                chunk = await backend.chunk(target.id)
                contents = chunk_contents(params.uri, chunk, max_bytes=max_bytes)
            else:
                document = await backend.document(target.id)
                contents = document_contents(
                    params.uri, document, target.offset, max_bytes=max_bytes
                )
        return ReadResourceResult(contents=[contents])

    server: Server[Any] = Server(
        "knowport",
        title="Knowport",
        version=version("knowport"),
        instructions=tool.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
    server.middleware.append(_refuse_long_names)
    return server


async def _refuse_long_names(ctx: Context, call_next: CallNext) -> HandlerResult:
    """The SDK repeats the name of an unknown method in its error."""
    if len(ctx.method) > MAX_METHOD_CHARS:
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    return await call_next(ctx)


@contextmanager
def _faults_named() -> Iterator[None]:
    """A fault of ours is logged here, and tells the client nothing of our insides."""
    try:
        yield
    except KnowportError:
        raise
    except Exception as error:
        log.exception("a request failed")
        raise KnowportError(
            "Knowport failed on this request by a fault of its own.",
            remedy="The log of the server says more.",
        ) from error


@contextmanager
def _as_protocol_error(**data: str) -> Iterator[None]:
    try:
        with _faults_named():
            yield
    except KnowportError as error:
        wrong = error.code in {InvalidInput.code, UnknownDocument.code}
        more = {name: shortened(value, MAX_ERROR_CHARS) for name, value in data.items()}
        raise MCPError(
            INVALID_PARAMS if wrong else INTERNAL_ERROR,
            shortened(str(error), MAX_ERROR_CHARS),
            {"code": error.code, "transient": error.transient, **more},
        ) from error
