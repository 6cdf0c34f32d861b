"""One attempt of a lookup: search, fuse, assess.

How the legs are fused is the ranker's choice. ``rrf`` and ``weighted`` fuse in the engine.
``adaptive``, the default, reads both legs and fuses their ranks by weighted RRF, the weights
chosen for this very query by how much of it the lexical leg's first hit really contains: plain
RRF loses to its better leg where one of them is noise (docs/adr/0007).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from knowport.core import relevance
from knowport.core.fusion import fuse_legs
from knowport.core.lexical import leg_weights, lexical_evidence
from knowport.core.relevance import Thresholds
from knowport.errors import EngineError
from knowport.model import (
    Assessment,
    Attempt,
    AttemptName,
    LegWeights,
    QueryPlan,
    RankerName,
    SearchHit,
    SearchMode,
    SearchRequest,
    TermKind,
    Vector,
)
from knowport.ports import KnowledgeSearchPort


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Width and ranker; the settings of the same names."""

    retrieve_k: int = 20
    ranker: RankerName = "adaptive"
    rrf_k: int = 60
    weight_dense: float = 1.0
    weight_sparse: float = 0.8


def search(
    index: KnowledgeSearchPort,
    plan: QueryPlan,
    vector: Vector | None,
    options: SearchOptions,
    thresholds: Thresholds,
    *,
    category: str | None,
) -> Attempt:
    """Search once under one filter. Without a vector only the lexical leg is asked.

    The attempt's level is not set here: it is judged by what would be returned of it. Raises
    EngineError if every leg that was asked failed.
    """

    def request(mode: SearchMode) -> SearchRequest:
        return SearchRequest(
            query=plan.text,
            vector=vector,
            kb_scope=plan.kb_scope,
            retrieve_k=options.retrieve_k,
            mode=mode,
            category=category,
            ranker=options.ranker,
            rrf_k=options.rrf_k,
            weight_dense=options.weight_dense,
            weight_sparse=options.weight_sparse,
        )

    mode = plan.mode if vector is not None else "sparse"
    if mode == "hybrid" and options.ranker == "adaptive":
        found = _both_legs(index, plan, request("dense"), request("sparse"))
    else:
        found = _Found(index.search(request(mode)), mode)
    return _assessed(plan, found, thresholds, category)


@dataclass(frozen=True, slots=True)
class _Found:
    hits: tuple[SearchHit, ...]
    mode: SearchMode
    weights: LegWeights | None = None
    coverages: Mapping[str, float] | None = None
    failed_leg: str = ""


def _both_legs(
    index: KnowledgeSearchPort, plan: QueryPlan, by_meaning: SearchRequest, by_words: SearchRequest
) -> _Found:
    """Both legs, at once."""
    hits_by_words = index.begin_search(by_words)
    try:
        dense = index.search(by_meaning)
    except EngineError as error:
        return _Found(hits_by_words(), "sparse", failed_leg=f"dense: {error.message}")
    try:
        sparse = hits_by_words()
    except EngineError as error:
        return _Found(dense, "dense", failed_leg=f"sparse: {error.message}")
    evidence = lexical_evidence(plan.terms, (*dense, *sparse))
    weights = leg_weights(plan.terms, evidence.coverage[sparse[0].id] if sparse else 0.0)
    prefer = evidence.in_headings.__getitem__
    hits = fuse_legs(dense, sparse, weights=weights, k=by_words.rrf_k, prefer=prefer)
    return _Found(hits, "hybrid", weights, evidence.coverage)


def _assessed(
    plan: QueryPlan, found: _Found, thresholds: Thresholds, category: str | None
) -> Attempt:
    coverages = found.coverages
    if coverages is None:
        coverages = lexical_evidence(plan.terms, found.hits).coverage
    # An identifier belongs to no language.
    words = " ".join(term.text for term in plan.terms if term.kind is not TermKind.IDENTIFIER)
    query_han = relevance.han_share(words)
    heed_language = thresholds.heed_language

    def assess(hit: SearchHit) -> Assessment:
        differ = heed_language and relevance.languages_differ(
            query_han, relevance.han_share(hit.content)
        )
        return relevance.assess(
            hit.scores.dense,
            coverages[hit.id],
            terms=len(plan.terms),
            languages_differ=differ,
            thresholds=thresholds,
        )

    return Attempt(
        name=AttemptName.UNFILTERED if category is None else AttemptName.FILTERED,
        mode=found.mode,
        category=category,
        hits=found.hits,
        assessments=tuple(map(assess, found.hits)),
        weights=found.weights,
        failed_leg=found.failed_leg,
    )
