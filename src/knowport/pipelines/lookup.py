"""The lookup: from a query to evidence, one step a line."""

from __future__ import annotations

import difflib
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from knowport.core import relevance
from knowport.core.packing import Packing, pack
from knowport.core.query import plan_query
from knowport.core.relevance import Thresholds
from knowport.core.selection import Selection, identify, select
from knowport.model import (
    Attempt,
    AttemptName,
    Candidate,
    EvidenceBlock,
    LookupResult,
    Notice,
    QueryPlan,
    RankerName,
    RelevanceLevel,
    SearchMode,
    SearchRequest,
    Timing,
    Vector,
)
from knowport.ports import Embedder, KnowledgeSearchPort, Ledger


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """Widths, ranker and budget of a lookup; the settings of the same names."""

    retrieve_k: int = 20
    return_n: int = 5
    max_chunks_per_document: int = 2
    ranker: RankerName = "rrf"
    rrf_k: int = 60
    weight_dense: float = 1.0
    weight_sparse: float = 0.8
    max_chars: int = 6_000


@dataclass(frozen=True, slots=True)
class LookupPorts:
    """What a lookup reads from; ``index`` and ``generation`` are None before any ingest."""

    embedder: Embedder
    ledger: Ledger
    index: KnowledgeSearchPort | None
    generation: str
    thresholds: Thresholds


def lookup(
    query: str,
    ports: LookupPorts,
    options: LookupOptions,
    *,
    kb_scope: str,
    category: str | None = None,
    mode: SearchMode = "hybrid",
) -> LookupResult:
    """Look a query up; raises InvalidInput, EmbeddingError, EngineError, LedgerError.

    Nothing found is an answer with ``found`` false and a notice, never an error; a failure is an
    error, never an empty answer.
    """
    steps = _Steps()
    with steps("plan"):
        plan = plan_query(query, kb_scope=kb_scope, category=category, mode=mode)
    if ports.index is None:
        return _assemble(ports, plan, _no_attempt(plan), Packing((), ()), Selection((), ()), steps)
    with steps("embed"):
        vector = ports.embedder.embed_query(plan.text)
    with steps("search"):
        attempt = _search(ports.index, plan, vector, options)
    with steps("select"):
        candidates = identify(attempt)
        selection = select(
            candidates,
            max_per_document=options.max_chunks_per_document,
            return_n=options.return_n,
            is_relevant=lambda candidate: _level(candidate, ports) is not RelevanceLevel.NONE,
        )
    with steps("pack"):
        blocks = [EvidenceBlock(kept, _level(kept, ports)) for kept in selection.kept]
        packing = pack(blocks, max_chars=options.max_chars)
    return _assemble(ports, plan, attempt, packing, selection, steps)


def _search(
    index: KnowledgeSearchPort, plan: QueryPlan, vector: Vector, options: LookupOptions
) -> Attempt:
    request = SearchRequest(
        query=plan.text,
        vector=vector,
        kb_scope=plan.kb_scope,
        retrieve_k=options.retrieve_k,
        mode=plan.mode,
        category=plan.category,
        ranker=options.ranker,
        rrf_k=options.rrf_k,
        weight_dense=options.weight_dense,
        weight_sparse=options.weight_sparse,
    )
    return Attempt(_attempt_name(plan), plan.mode, plan.category, index.search(request))


def _assemble(
    ports: LookupPorts,
    plan: QueryPlan,
    attempt: Attempt,
    packing: Packing,
    selection: Selection,
    steps: _Steps,
) -> LookupResult:
    level = relevance.best(item.block.level for item in packing.evidence)
    reasons = tuple(_why_nothing(ports, plan, attempt, packing, selection))
    searched = all(reason.code != "empty_index" for reason in reasons)
    return LookupResult(
        lookup_id=f"lk_{uuid.uuid4().hex}",
        generation=ports.generation,
        plan=plan,
        attempts=(attempt,),
        selected_attempt=attempt.name,
        found=bool(packing.evidence),
        level=level,
        calibrated=ports.thresholds.calibrated,
        evidence=packing.evidence,
        drops=(*selection.drops, *packing.drops),
        notices=(*plan.notices, *reasons) if searched else reasons,
        timings=steps.taken,
    )


def _why_nothing(
    ports: LookupPorts, plan: QueryPlan, attempt: Attempt, packing: Packing, selection: Selection
) -> Iterator[Notice]:
    """The one reason why an answer has no evidence; asked only then, so it may cost a read."""
    if packing.evidence:
        return
    if ports.index is None or (not attempt.hits and ports.index.count(kb_scope=plan.kb_scope) == 0):
        yield Notice(
            "empty_index",
            f"The index holds no documents in scope '{plan.kb_scope}': nothing was searched.",
        )
    elif not attempt.hits and plan.category is not None:
        known = ports.ledger.categories(plan.kb_scope)
        if plan.category not in known:
            yield Notice("unknown_category", _unknown_category(plan.category, known))
    elif packing.drops:
        yield Notice("budget_too_small", "Evidence was found, but none fits the budget.")
    elif selection.drops:
        yield Notice(
            "below_threshold", "Something was found, but none of it is close enough to the query."
        )


def _unknown_category(category: str, known: tuple[str, ...]) -> str:
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(category.lower(), folded, n=3, cutoff=0.6)
    nearest = [folded[name] for name in near] or list(known[:10])
    hint = f" Did you mean: {', '.join(nearest)}?" if nearest else " No document has a category."
    return f"No document has the category '{category}'.{hint}"


def _level(candidate: Candidate, ports: LookupPorts) -> RelevanceLevel:
    return relevance.level(candidate.hit.scores.dense, ports.thresholds)


def _attempt_name(plan: QueryPlan) -> AttemptName:
    return AttemptName.UNFILTERED if plan.category is None else AttemptName.FILTERED


def _no_attempt(plan: QueryPlan) -> Attempt:
    return Attempt(_attempt_name(plan), plan.mode, plan.category, ())


class _Steps:
    """Times the steps of one lookup."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._taken: list[Timing] = []

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        start = self._clock()
        try:
            yield
        finally:
            self._taken.append(Timing(step, self._clock() - start))

    @property
    def taken(self) -> tuple[Timing, ...]:
        return tuple(self._taken)
