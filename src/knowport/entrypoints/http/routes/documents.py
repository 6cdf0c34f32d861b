"""Documents, one by one and in pages. An id travels in the query or in a body, never in a path,
because it may hold ``/`` and ``#``."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Request, Response

from knowport.core.identity import make_doc_id, parse_evidence_key
from knowport.entrypoints import wire
from knowport.entrypoints.http import schemas, strict_json
from knowport.entrypoints.http.access import Caller, Reader, Writer
from knowport.entrypoints.http.replies import (
    example,
    problems,
    refuse_other_types,
    reply,
    router,
    validated,
)
from knowport.entrypoints.http.service import Service, service_of
from knowport.entrypoints.http.uploads import PUT_BODY, Upload, read_upload
from knowport.errors import InvalidInput
from knowport.knowledge_writing import API_SOURCE
from knowport.model import Chunk, DocumentInfo, FileOutcome, FileResult

routes = router("documents")

MOST = 500
STORED = {"id": schemas.DOC_ID, "outcome": "indexed", "chunks": 2, "reason": "new"}


@routes.get(
    "/documents",
    response_model=schemas.DocumentText | schemas.ChunkText | schemas.DocumentPage,
    responses=problems(404),
)
async def get(
    caller: Reader,
    request: Request,
    doc_id: Annotated[
        str | None,
        Query(alias="id", description="A document id, or an evidence key for that chunk alone."),
    ] = None,
    category: schemas.Category = None,
    kb_scope: schemas.Scope = None,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> Response:
    """With `id` that document and its text, or the chunk of that evidence key; else a page of the
    documents of the scope, in order of id."""
    service = service_of(request)
    scope = service.scope(caller, kb_scope)
    if doc_id is not None:
        return reply(await service.read(lambda: _one(service, doc_id, scope)))
    after = _after(cursor)
    found = await service.read(
        lambda: service.kb.documents_page(
            kb_scope=scope, category=category, after=after, limit=limit + 1
        )
    )
    page = found[:limit]
    more = len(found) > limit
    return reply(
        {
            "documents": [wire.document_json(info) for info in page],
            "next_cursor": _cursor(page[-1]) if more else None,
        }
    )


def _one(service: Service, name: str, scope: str) -> dict[str, Any]:
    """A chunk or a document; raises UnknownDocument, also for what stands in another scope."""
    try:
        parse_evidence_key(name)
    except InvalidInput:
        return wire.document_json(*service.document(name, scope))
    return _chunk(name, *service.kb.chunk(name, kb_scope=scope))


def _chunk(key: str, info: DocumentInfo, chunk: Chunk) -> dict[str, Any]:
    return {
        "id": key,
        "doc_id": info.doc_id,
        "chunk_index": chunk.chunk_index,
        "source": info.source,
        "title": chunk.title,
        "breadcrumb": chunk.breadcrumb,
        "category": info.category,
        "content": chunk.content,
        "start": chunk.start,
        "end": chunk.end,
    }


@routes.put(
    "/documents",
    response_model=schemas.DocumentStored,
    responses={
        200: {"description": "Changed, or unchanged.", **example(STORED)},
        201: {
            "description": "New.",
            "model": schemas.DocumentStored,
            **example(STORED),
        },
        **problems(404, 409, 415),
    },
    openapi_extra=PUT_BODY,
)
async def put(
    caller: Writer,
    request: Request,
    doc_id: Annotated[
        str | None, Query(alias="id", description="Else in the body, or of the file's name.")
    ] = None,
    title: str | None = None,
    category: str | None = None,
    source: str | None = None,
    kb_scope: schemas.Scope = None,
) -> Response:
    """Bring one document into the index, over an older version of it. The body is JSON, the text
    itself, or a form with a file of any known format. It answers when the document can be found.
    """
    service = service_of(request)
    asked = {
        "id": doc_id,
        "title": title,
        "category": category,
        "source": source,
        "kb_scope": kb_scope,
    }
    upload = await read_upload(request, asked)
    scope = service.scope(caller, upload.fields.get("kb_scope"))
    done = await service.write(lambda: _store(service, upload, scope, caller))
    service.metrics.took_in(done.outcome)
    new = done.outcome is FileOutcome.INDEXED and done.reason == "new"
    return reply(
        {"id": done.doc_id, "outcome": done.outcome, "chunks": done.chunks, "reason": done.reason},
        status=201 if new else 200,
        headers={"Location": f"/v1/documents?id={quote(done.doc_id or '', safe='')}"},
    )


def _store(service: Service, upload: Upload, scope: str, caller: Caller) -> FileResult:
    fields = {k: upload.fields.get(k) for k in ("title", "category", "source")}
    metadata, doc_id = upload.metadata, upload.fields.get("id")
    if doc_id is None and upload.data is not None:
        doc_id = make_doc_id(fields["source"] or API_SOURCE, upload.name)
    if doc_id is None:
        raise InvalidInput(
            "The document has no id.", field="id", remedy="Send it in the query or in the body."
        )
    if caller.kb_scope is not None:
        service.refuse_taken(doc_id, scope)
    if upload.data is not None:
        return service.kb.put_file(
            upload.data, upload.name, doc_id=doc_id, kb_scope=scope, metadata=metadata, **fields
        )
    return service.kb.put(
        doc_id,
        upload.text,
        text_format=upload.text_format,
        kb_scope=scope,
        metadata=metadata,
        **fields,
    )


@routes.delete(
    "/documents",
    response_model=schemas.DocumentDeleted,
    responses=problems(404, 415),
    openapi_extra={
        "requestBody": {
            "required": False,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/DeleteBody"}}
            },
        }
    },
)
async def delete(
    caller: Writer,
    request: Request,
    doc_id: Annotated[str | None, Query(alias="id", description="Else in the body.")] = None,
    kb_scope: schemas.Scope = None,
) -> Response:
    """Delete a document. The file that it came from stays."""
    service = service_of(request)
    scope = service.scope(caller, kb_scope)
    name = doc_id if doc_id is not None else await _id_in_body(request)

    def removed() -> tuple[str, int]:
        info, _ = service.document(name, scope)
        return info.doc_id, service.kb.delete(info.doc_id)

    gone, chunks = await service.write(removed)
    return reply({"id": gone, "chunks_deleted": chunks})


async def _id_in_body(request: Request) -> str:
    body = await request.body()
    if not body:
        raise InvalidInput(
            "No document is named.", field="id", remedy="Send its id in the query or in the body."
        )
    refuse_other_types(request, "application/json")
    return validated(schemas.DeleteBody, strict_json.loads(body)).id


def _cursor(last: DocumentInfo) -> str:
    return base64.urlsafe_b64encode(last.doc_id.encode()).decode().rstrip("=")


def _after(cursor: str | None) -> str:
    """The id that a page begins after; '' for the first."""
    if not cursor:
        return ""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise InvalidInput(
            f"{cursor!r} is no cursor.",
            field="cursor",
            remedy="Use next_cursor of the page before as it is, or none for the first page.",
        ) from None
