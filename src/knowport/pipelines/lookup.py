"""The lookup: from a query to evidence, one step a line."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from knowport.core import relevance
from knowport.core.domains import Catalogue
from knowport.core.fusion import rrf
from knowport.core.packing import Packing, pack
from knowport.core.query import plan_query
from knowport.core.relevance import Thresholds
from knowport.core.selection import Selection, identify, select
from knowport.errors import EmbeddingError
from knowport.model import (
    Attempt,
    AttemptName,
    Candidate,
    EvidenceBlock,
    LookupResult,
    Notice,
    QueryPlan,
    RelevanceLevel,
    SearchHit,
    SearchMode,
    Vector,
)
from knowport.pipelines.notices import failed_legs, why_nothing
from knowport.pipelines.search import SearchOptions, search
from knowport.ports import Embedder, KnowledgeSearchPort, Ledger
from knowport.telemetry import Steps


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """Widths, budget and fallback of a lookup; the settings of the same names.

    ``retry_unfiltered_on_low_quality`` lets a lookup leave a filter that was guessed; ``parallel``
    then does not wait to see whether it serves, but runs the filtered and the unfiltered attempt
    at once and merges them by rank.
    """

    search: SearchOptions = field(default_factory=SearchOptions)
    return_n: int = 5
    max_chunks_per_document: int = 2
    max_chars: int = 6_000
    retry_unfiltered_on_low_quality: bool = True
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class LookupPorts:
    """What a lookup reads from; ``index`` is None and ``generation`` '' before any ingest.

    ``notices`` are about the knowledge base as a whole, and go into every answer.
    """

    embedder: Embedder
    ledger: Ledger
    index: KnowledgeSearchPort | None
    generation: str
    thresholds: Thresholds
    catalogue: Catalogue = field(default_factory=Catalogue)
    notices: tuple[Notice, ...] = ()


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
    error, never an empty answer. Where one leg fails the other answers, with a notice.
    """
    steps = Steps("lookup")
    with steps("plan"):
        plan = plan_query(
            query, kb_scope=kb_scope, category=category, mode=mode, catalogue=ports.catalogue
        )
    if ports.index is None:
        return _assemble(ports, plan, (), _Choice((), Selection((), ())), Packing((), ()), steps)
    with steps("embed"):
        plan, vector = _embed(plan, ports.embedder)
    with steps("search"):
        tried = _attempts(ports.index, plan, vector, ports.thresholds, options)
    with steps("select"):
        choice = _choice(tried, options, ports.thresholds)
    with steps("pack"):
        kept = choice.selection.kept
        blocks = [EvidenceBlock(found, found.assessment.level) for found in kept]
        packing = pack(blocks, max_chars=options.max_chars)
    return _assemble(ports, plan, tuple(t.attempt for t in tried), choice, packing, steps)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Candidates and what of them is worth showing."""

    candidates: tuple[Candidate, ...]
    selection: Selection


@dataclass(frozen=True, slots=True)
class _Tried:
    """An attempt, judged by what it would return, which is ``choice``."""

    attempt: Attempt
    choice: _Choice


def _embed(plan: QueryPlan, embedder: Embedder) -> tuple[QueryPlan, Vector | None]:
    try:
        return plan, embedder.embed_query(plan.text)
    except EmbeddingError as error:
        if plan.mode == "dense":  # there is no other leg to answer
            raise
        notice = Notice(
            "degraded",
            f"Searched by words only, because the query could not be embedded: {error.message}",
        )
        return replace(plan, notices=(*plan.notices, notice)), None


def _attempts(
    index: KnowledgeSearchPort,
    plan: QueryPlan,
    vector: Vector | None,
    thresholds: Thresholds,
    options: LookupOptions,
) -> tuple[_Tried, ...]:
    """One attempt, or two where a filter was guessed and may be left.

    A category of the caller is hard: it is never widened.
    """

    def attempt(category: str | None) -> _Tried:
        found = search(index, plan, vector, options.search, thresholds, category=category)
        return _judged(found, options, thresholds)

    if plan.category is not None or plan.soft_category is None:
        return (attempt(plan.category),)
    if not options.retry_unfiltered_on_low_quality:
        return (attempt(plan.soft_category),)
    if options.parallel:
        with ThreadPoolExecutor(2) as pool:
            return tuple(pool.map(attempt, (plan.soft_category, None)))
    filtered = attempt(plan.soft_category)
    return (filtered, attempt(None)) if filtered.attempt.low_quality else (filtered,)


def _judged(attempt: Attempt, options: LookupOptions, thresholds: Thresholds) -> _Tried:
    choice = _selected(identify(attempt), options, thresholds)
    level = relevance.best(kept.assessment.level for kept in choice.selection.kept)
    low_quality = _low_quality(level, attempt.hits)
    return _Tried(replace(attempt, level=level, low_quality=low_quality), choice)


def _low_quality(level: RelevanceLevel, hits: tuple[SearchHit, ...]) -> str:
    """Why what was found under a guessed filter is not good enough to stay under it, or ''.

    Only a high level is: when the words of a question name the wrong domain, that domain's pages
    are always somewhat near to it, and a second search costs a few milliseconds.
    """
    if not hits:
        return "nothing_found"
    return "" if level is RelevanceLevel.HIGH else f"best_evidence_is_{level}"


def _selected(
    candidates: tuple[Candidate, ...], options: LookupOptions, thresholds: Thresholds
) -> _Choice:
    selection = select(
        candidates,
        max_per_document=options.max_chunks_per_document,
        return_n=options.return_n,
        is_relevant=lambda found: found.assessment.level is not RelevanceLevel.NONE,
        first_decide=thresholds.calibrated,
    )
    return _Choice(candidates, selection)


def _choice(tried: Sequence[_Tried], options: LookupOptions, thresholds: Thresholds) -> _Choice:
    """What the last attempt would return, or both merged if they ran in parallel."""
    if len(tried) == 1 or not options.parallel:
        return tried[-1].choice
    return _selected(_merged(*tried, k=options.search.rrf_k), options, thresholds)


def _merged(filtered: _Tried, unfiltered: _Tried, *, k: int) -> tuple[Candidate, ...]:
    """Candidates of both attempts, ranked by RRF of their ranks.

    Where the filtered attempt is of low quality its candidates stand behind those of the other:
    else a filter that was guessed wrongly would take half of the answer.
    """
    inside, everywhere = filtered.choice.candidates, unfiltered.choice.candidates
    # The unfiltered attempt weighs terms by more candidates, so its assessment stands.
    judged = {c.key: c.assessment for c in (*inside, *everywhere)}
    if filtered.attempt.low_quality:
        behind = len(everywhere)
        return everywhere + tuple(
            replace(c, rank=behind + c.rank, assessment=judged[c.key]) for c in inside
        )
    lists = [list(dict.fromkeys(c.key for c in found)) for found in (inside, everywhere)]
    rank = {key: number for number, (key, _) in enumerate(rrf(lists, k=k), start=1)}
    return tuple(
        replace(c, rank=rank[c.key], assessment=judged[c.key]) for c in (*inside, *everywhere)
    )


def _assemble(
    ports: LookupPorts,
    plan: QueryPlan,
    attempts: tuple[Attempt, ...],
    choice: _Choice,
    packing: Packing,
    steps: Steps,
) -> LookupResult:
    level = relevance.best(item.block.level for item in packing.evidence)
    selection = choice.selection
    reasons = tuple(why_nothing(plan, attempts, selection, packing, ports.index, ports.ledger))
    searched = all(reason.code != "empty_index" for reason in reasons)
    of_lookup = (*plan.notices, *failed_legs(attempts), *reasons) if searched else reasons
    notices = (*of_lookup, *ports.notices)
    return LookupResult(
        lookup_id=f"lk_{uuid.uuid4().hex}",
        generation=ports.generation,
        plan=plan,
        attempts=attempts,
        selected_attempt=_selected_attempt(plan, attempts, packing),
        candidates=choice.candidates,
        found=bool(packing.evidence),
        level=level,
        calibrated=ports.thresholds.calibrated,
        evidence=packing.evidence,
        drops=(*selection.drops, *packing.drops),
        notices=notices,
        timings=steps.taken,
    )


def _selected_attempt(
    plan: QueryPlan, attempts: Sequence[Attempt], packing: Packing
) -> AttemptName:
    """The attempt that found the first evidence; where there is none, the last one."""
    if packing.evidence:
        return packing.evidence[0].block.candidate.reasons[0].attempt
    if attempts:
        return attempts[-1].name
    return AttemptName.UNFILTERED if plan.category is None else AttemptName.FILTERED
