"""Why a chunk or a document is, or is not, in the answer to a query.

The question is answered from what the lookup itself saw, and only where it saw nothing of the
document from further reads: the ledger, then both legs searched as wide as the engine allows.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from knowport.core.identity import evidence_key, parse_evidence_key
from knowport.core.wording import counted
from knowport.errors import EmbeddingError, EngineError, InvalidInput
from knowport.model import (
    AttemptName,
    Candidate,
    DocumentInfo,
    LookupResult,
    QueryPlan,
    Scores,
    SearchHit,
    SearchMode,
    SearchRequest,
)
from knowport.pipelines.lookup import LookupOptions, LookupPorts
from knowport.pipelines.trace import fated, fates
from knowport.ports import Embedder, KnowledgeSearchPort

MAX_WIDTH = 16_384  # the widest search that a Milvus server allows
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a chunk or document ended up; ``reason`` is a stable code.

    ``kept``; a drop reason (``duplicate``, ``over_cap``, ``below_threshold``,
    ``beyond_return_n``, ``out_of_budget``); or ``not_in_index``, ``wrong_scope``,
    ``filtered_out``, ``beyond_retrieve_k``. Evidence that was found twice has the fate of its
    better-ranked finding; ``duplicate`` is the answer for a row of the index under an id of its own
    that holds the evidence of a better-ranked row. ``dense_rank`` and ``sparse_rank`` are the best
    ranks in the legs, without the width limit where it kept the document out; None where a leg does
    not find it or failed.
    """

    document_id: str
    reason: str
    message: str
    dense_rank: int | None = None
    sparse_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A lookup laid open.

    ``candidates`` are dicts of ranks, scores and fate, in order of rank; ``fusion_check`` names
    the hits whose fused score or place is not what their leg ranks give (none, unless something is
    wrong).
    """

    result: LookupResult
    candidates: tuple[dict[str, Any], ...]
    fusion_check: tuple[str, ...]
    whereabouts: Whereabouts | None


def explain(
    result: LookupResult, document_id: str | None, ports: LookupPorts, options: LookupOptions
) -> Explanation:
    """Explain a lookup, and where ``document_id`` ended up in it if one is named."""
    result = _with_leg_scores(result, ports, options)
    return Explanation(
        result=result,
        candidates=tuple(fates(result)),
        fusion_check=leg_check(result, k=options.search.rrf_k),
        whereabouts=None
        if document_id is None
        else whereabouts(document_id, result, ports, options),
    )


def whereabouts(
    document_id: str, result: LookupResult, ports: LookupPorts, options: LookupOptions
) -> Whereabouts:
    """Where ``document_id`` ended up in a lookup: an evidence key, a document id, or the id of a
    row in the index."""
    name = unicodedata.normalize("NFC", document_id)
    fated_all = fated(result)
    seen = [pair for pair in fated_all if _is(name, pair[0].key, pair[0].hit)]
    if seen:
        return _seen(document_id, seen, fated_all, found=result.found)
    doc_id, chunk = _parsed(name)
    info = ports.ledger.document(doc_id)
    if info is None or (chunk is not None and chunk >= info.chunk_count):
        return Whereabouts(document_id, "not_in_index", _not_in_index(doc_id, chunk, info))
    if info.kb_scope != result.plan.kb_scope:
        return Whereabouts(
            document_id,
            "wrong_scope",
            f"It stands in scope '{info.kb_scope}'; the lookup was in '{result.plan.kb_scope}'.",
        )
    category = result.attempts[-1].category if result.attempts else None
    if category is not None and info.category != category:
        return Whereabouts(
            document_id,
            "filtered_out",
            f"Its category is '{info.category}'; the lookup was filtered to '{category}'.",
        )
    return _too_far(document_id, name, result, ports, options)


def leg_check(result: LookupResult, *, k: int) -> tuple[str, ...]:
    """Hits whose fused score, or place, is not what their leg ranks give; empty if all agree."""
    wrong: dict[str, None] = {}
    for attempt in result.attempts:
        if attempt.weights is None:  # the engine fused
            continue
        above = math.inf
        for hit in attempt.hits:
            legs = (
                (attempt.weights.dense, hit.scores.dense_rank),
                (attempt.weights.sparse, hit.scores.sparse_rank),
            )
            expected = sum(weight / (k + rank) for weight, rank in legs if rank is not None)
            tampered = abs(expected - (hit.scores.fused or 0.0)) > _TOLERANCE
            if tampered or expected > above + _TOLERANCE:
                wrong[hit.id] = None
            above = expected
    return tuple(wrong)


def _parsed(name: str) -> tuple[str, int | None]:
    try:
        return parse_evidence_key(name)
    except InvalidInput:
        return name, None


def _not_in_index(doc_id: str, chunk: int | None, info: DocumentInfo | None) -> str:
    if info is None:
        return f"No document has the id '{doc_id}'."
    chunks = counted(info.chunk_count, "chunk")
    return f"'{doc_id}' has {chunks}, numbered from 0; there is no {chunk}."


def _is(name: str, key: str, hit: SearchHit) -> bool:
    """Whether a hit is what a name asks for: its evidence, its row or a chunk of its document."""
    return name in (key, hit.id) or (name == hit.doc_id and name != "")


def _seen(
    document_id: str,
    seen: list[tuple[Candidate, str]],
    every: list[tuple[Candidate, str]],
    *,
    found: bool,
) -> Whereabouts:
    # Of several chunks of a document the one that got furthest speaks for it.
    candidate, fate = next((pair for pair in seen if pair[1] == "kept"), seen[0])
    first, its_fate = next(pair for pair in every if pair[0].key == candidate.key)
    score = round(candidate.assessment.score or 0.0, 6)
    messages = {
        "kept": "It is in the answer.",
        "duplicate": f"It is the same evidence as the row {first.hit.id}, which was found at rank "
        f"{first.rank} and has the fate: {its_fate}.",
        "over_cap": "Enough better chunks of the same document came before it "
        "(rag.max_chunks_per_document).",
        "below_threshold": f"Its relevance score {score} is below the threshold.",
        "beyond_return_n": "Enough better chunks came before it (rag.return_n)."
        if found
        else "None of the chunks that came first is close enough to the query (rag.return_n), so "
        "that the lookup found nothing.",
        "out_of_budget": "It had no room in the answer (pack.max_chars).",
    }
    return Whereabouts(
        document_id,
        fate,
        f"{candidate.key}, rank {candidate.rank}: {messages[fate]}",
        candidate.hit.scores.dense_rank,
        candidate.hit.scores.sparse_rank,
    )


def _too_far(
    document_id: str,
    name: str,
    result: LookupResult,
    ports: LookupPorts,
    options: LookupOptions,
) -> Whereabouts:
    assert ports.index is not None  # else the ledger would know no document
    width = min(MAX_WIDTH, ports.index.count(kb_scope=result.plan.kb_scope) or 1)
    ranks: dict[str, int | None] = {"dense": None, "sparse": None}
    shown = dict.fromkeys(ranks, "not searched")
    category = result.attempts[-1].category
    for leg, found in _legs(result.plan, category, width, ports.index, ports.embedder):
        if found is None:
            shown[leg] = "failed"
            continue
        places = (
            rank
            for rank, hit in enumerate(found, start=1)
            if _is(name, evidence_key(hit.doc_id, hit.chunk_index, hit.id, rank), hit)
        )
        ranks[leg] = next(places, None)
        shown[leg] = str(ranks[leg] or "not found")
    return Whereabouts(
        document_id,
        "beyond_retrieve_k",
        f"The search kept the first {options.search.retrieve_k} (rag.retrieve_k); without that "
        f"limit its rank is: {', '.join(f'{leg} {rank}' for leg, rank in shown.items())}.",
        ranks["dense"],
        ranks["sparse"],
    )


def _with_leg_scores(
    result: LookupResult, ports: LookupPorts, options: LookupOptions
) -> LookupResult:
    """The result with what each leg says of the candidates, where the engine fused them itself."""
    known: dict[tuple[AttemptName, SearchMode, str], Scores] = {}
    for attempt in result.attempts:
        if ports.index is None or attempt.mode != "hybrid" or attempt.weights is not None:
            continue
        width = options.search.retrieve_k
        legs = _legs(result.plan, attempt.category, width, ports.index, ports.embedder)
        for leg, hits in legs:
            known |= {(attempt.name, leg, hit.id): hit.scores for hit in hits or ()}
    unknown = Scores()

    def filled(candidate: Candidate) -> Candidate:
        hit, name = candidate.hit, candidate.reasons[0].attempt
        sparse = known.get((name, "sparse", hit.id), unknown)
        scores = replace(
            hit.scores,
            dense_rank=known.get((name, "dense", hit.id), unknown).dense_rank,
            sparse=sparse.sparse,
            sparse_rank=sparse.sparse_rank,
        )
        return replace(candidate, hit=replace(hit, scores=scores))

    if not known:
        return result
    return replace(result, candidates=tuple(map(filled, result.candidates)))


def _legs(
    plan: QueryPlan,
    category: str | None,
    width: int,
    index: KnowledgeSearchPort,
    embedder: Embedder,
) -> Iterator[tuple[SearchMode, tuple[SearchHit, ...] | None]]:
    """Each leg of a search on its own; None for one that failed: a lookup can do without one."""
    request = SearchRequest(
        query=plan.text,
        vector=None,
        kb_scope=plan.kb_scope,
        retrieve_k=width,
        category=category,
    )
    legs: tuple[SearchMode, ...] = ("dense",) if plan.mode == "dense" else ("dense", "sparse")
    for leg in legs:
        try:
            vector = embedder.embed_query(plan.text) if leg == "dense" else None
            yield leg, index.search(replace(request, mode=leg, vector=vector))
        except (EmbeddingError, EngineError):
            yield leg, None
