"""Looking up, and looking behind a lookup."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

from fastapi import Query, Request, Response

from knowport.core.evidence_map import EvidenceStatus
from knowport.core.identity import parse_evidence_key
from knowport.core.projection import project
from knowport.entrypoints import wire
from knowport.entrypoints.http import schemas
from knowport.entrypoints.http.access import Reader
from knowport.entrypoints.http.problems import Problem
from knowport.entrypoints.http.replies import example, problems, reply, router
from knowport.entrypoints.http.service import service_of
from knowport.errors import InvalidInput, UnknownDocument
from knowport.knowledge_base import KnowledgeBase
from knowport.model import Answer
from knowport.pipelines.explain import Explanation, Whereabouts

routes = router("lookups")

ANSWER = {
    "found": True,
    "relevance_level": "high",
    "lookup_id": "lk_6c1f0a52f3d94a3f8b7c2d1e0f9a8b7c",
    "generation": "g1",
    "evidence": [
        {
            "document_id": f"{schemas.DOC_ID}#chunk-0",
            "source": "handbook",
            "title": "锁等待",
            "breadcrumb": "锁等待 > 现象",
            "excerpt": "支付库报 ERROR 1205 (HY000)，事务等不到行锁。",
            "truncated": False,
            "relevance_level": "high",
            "via": "unfiltered",
        }
    ],
    "withheld": {"below_threshold": 3},
    "notices": [],
}


@routes.post(
    "/lookup", response_model=Answer, responses={200: example(ANSWER), **problems(404, 415)}
)
async def lookup(body: schemas.LookupBody, caller: Reader, request: Request) -> Response:
    """Evidence for a query, as an agent sees it. Nothing found is an answer, with `found` false."""
    result = await service_of(request).lookup(
        caller, body.query, category=body.category, mode=body.mode, kb_scope=body.kb_scope
    )
    return reply(wire.answer_json(project(result)))


@routes.post("/explain", response_model=schemas.Explanation, responses=problems(404, 415))
async def explain(body: schemas.ExplainBody, caller: Reader, request: Request) -> Response:
    """A lookup with everything that led to its answer. It leaves no trace."""
    service = service_of(request)
    scope = service.scope(caller, body.kb_scope)

    def explained() -> Explanation:
        found = service.kb.explain(
            body.query,
            document_id=body.document_id,
            category=body.category,
            kb_scope=scope,
            mode=body.mode,
        )
        if caller.kb_scope is None or body.document_id is None:
            return found
        return _without_other_scopes(found, body.document_id, scope, service.kb)

    return reply(wire.explanation_json(await service.read(explained)))


def _without_other_scopes(
    found: Explanation, document_id: str, scope: str, kb: KnowledgeBase
) -> Explanation:
    """An explanation that tells of a document of another scope as of none."""
    try:
        doc_id = parse_evidence_key(document_id)[0]
    except InvalidInput:
        doc_id = document_id
    try:
        info, _ = kb.document(doc_id)
    except UnknownDocument:
        return found
    if info.kb_scope == scope:
        return found
    nothing = Whereabouts(document_id, "not_in_index", f"No document has the id '{doc_id}'.")
    return replace(found, whereabouts=nothing)


@routes.get("/lookups/{lookup_id}", response_model=schemas.Trace, responses=problems(404))
async def trace(lookup_id: str, caller: Reader, request: Request) -> Response:
    """The stored trace of a lookup."""
    service = service_of(request)
    stored = await service.read(lambda: service.kb.trace(lookup_id))
    if stored is None or not caller.sees(stored["plan"]["kb_scope"]):
        raise Problem(
            404,
            "unknown_lookup",
            f"There is no trace of {lookup_id!r}.",
            remedy="Traces are kept for trace.max_age_days and up to trace.max_count.",
        )
    return reply(stored)


@routes.get("/evidence", response_model=EvidenceStatus, responses=problems(404))
async def evidence(
    caller: Reader,
    request: Request,
    key: Annotated[str, Query(alias="id", description="An evidence key that was cited.")],
    generation: Annotated[
        str | None, Query(description="The generation that the answer named.")
    ] = None,
    at: Annotated[str | None, Query(description="When it was cited: UTC, ISO 8601.")] = None,
    kb_scope: schemas.Scope = None,
) -> Response:
    """Whether an evidence key that was cited still stands for the same text, or where that text is
    now. What stood in another scope is `unknown`, as what never was."""
    service = service_of(request)
    scope = service.scope(caller, kb_scope)
    found = await service.read(
        lambda: service.kb.evidence(key, generation=generation, at=at, kb_scope=scope)
    )
    return reply(asdict(found))
