"""The lookup: from a query to evidence, one step a line."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator, Sequence
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
    SearchMode,
    Vector,
)
from knowport.pipelines.search import SearchOptions, search
from knowport.ports import Embedder, KnowledgeSearchPort, Ledger
from knowport.telemetry import Steps


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """Widths, budget and fallback of a lookup; the settings of the same names.

    ``parallel`` runs the filtered and the unfiltered attempt at once and merges them by rank.
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
        return _assemble(ports, plan, (), (), Selection((), ()), Packing((), ()), steps)
    with steps("embed"):
        plan, vector = _embed(plan, ports.embedder)
    with steps("search"):
        attempts = _attempts(ports.index, plan, vector, ports.thresholds, options)
    with steps("select"):
        candidates = _candidates(attempts, options)
        selection = select(
            candidates,
            max_per_document=options.max_chunks_per_document,
            return_n=options.return_n,
            is_relevant=lambda found: found.assessment.level is not RelevanceLevel.NONE,
        )
    with steps("pack"):
        blocks = [EvidenceBlock(kept, kept.assessment.level) for kept in selection.kept]
        packing = pack(blocks, max_chars=options.max_chars)
    return _assemble(ports, plan, attempts, candidates, selection, packing, steps)


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
) -> tuple[Attempt, ...]:
    """One attempt, or two where a filter was guessed and did not serve.

    A category of the caller is hard: it is never widened.
    """

    def attempt(category: str | None) -> Attempt:
        return search(index, plan, vector, options.search, thresholds, category=category)

    if plan.category is not None or plan.soft_category is None:
        return (attempt(plan.category),)
    if options.parallel:
        with ThreadPoolExecutor(2) as pool:
            return tuple(pool.map(attempt, (plan.soft_category, None)))
    filtered = attempt(plan.soft_category)
    if filtered.low_quality and options.retry_unfiltered_on_low_quality:
        return filtered, attempt(None)
    return (filtered,)


def _candidates(attempts: Sequence[Attempt], options: LookupOptions) -> tuple[Candidate, ...]:
    """Candidates of the last attempt, or of both merged by rank if they ran in parallel."""
    if len(attempts) == 1 or not options.parallel:
        return identify(attempts[-1])
    lists = [identify(attempt) for attempt in attempts]
    order = rrf([[c.key for c in found] for found in lists], k=options.search.rrf_k)
    rank = {key: position for position, (key, _) in enumerate(order, start=1)}
    # The unfiltered attempt weighs terms by more candidates, so its assessment stands.
    judged = {c.key: c.assessment for found in lists for c in found}
    return tuple(
        replace(c, rank=rank[c.key], assessment=judged[c.key]) for found in lists for c in found
    )


def _assemble(
    ports: LookupPorts,
    plan: QueryPlan,
    attempts: tuple[Attempt, ...],
    candidates: tuple[Candidate, ...],
    selection: Selection,
    packing: Packing,
    steps: Steps,
) -> LookupResult:
    level = relevance.best(item.block.level for item in packing.evidence)
    reasons = tuple(_why_nothing(ports, plan, attempts, packing, selection))
    searched = all(reason.code != "empty_index" for reason in reasons)
    of_lookup = (*plan.notices, *_failed_legs(attempts), *reasons) if searched else reasons
    notices = (*of_lookup, *ports.notices)
    return LookupResult(
        lookup_id=f"lk_{uuid.uuid4().hex}",
        generation=ports.generation,
        plan=plan,
        attempts=attempts,
        selected_attempt=attempts[-1].name if attempts else _only_attempt(plan),
        candidates=candidates,
        found=bool(packing.evidence),
        level=level,
        calibrated=ports.thresholds.calibrated,
        evidence=packing.evidence,
        drops=(*selection.drops, *packing.drops),
        notices=notices,
        timings=steps.taken,
    )


def _only_attempt(plan: QueryPlan) -> AttemptName:
    return AttemptName.UNFILTERED if plan.category is None else AttemptName.FILTERED


def _failed_legs(attempts: Sequence[Attempt]) -> Iterator[Notice]:
    for failed in dict.fromkeys(a.failed_leg for a in attempts if a.failed_leg):
        yield Notice("degraded", f"One leg of the search failed and the other answered. {failed}")


def _why_nothing(
    ports: LookupPorts,
    plan: QueryPlan,
    attempts: Sequence[Attempt],
    packing: Packing,
    selection: Selection,
) -> Iterator[Notice]:
    """The one reason why an answer has no evidence; asked only then, so it may cost a read."""
    if packing.evidence:
        return
    hits = any(attempt.hits for attempt in attempts)
    if ports.index is None or (not hits and ports.index.count(kb_scope=plan.kb_scope) == 0):
        yield Notice(
            "empty_index",
            f"The index holds no documents in scope '{plan.kb_scope}': nothing was searched. "
            "Ingest documents first (`knowport ingest PATH`), or name the right folder (--home, "
            "KNOWPORT_HOME).",
        )
    elif not hits:
        yield _no_hits(plan, attempts[-1], ports.ledger.categories(plan.kb_scope))
    elif packing.drops:
        yield Notice("budget_too_small", "Evidence was found, but none fits the budget.")
    elif selection.drops:
        yield Notice(
            "below_threshold", "Something was found, but none of it is close enough to the query."
        )


def _no_hits(plan: QueryPlan, last: Attempt, known: tuple[str, ...]) -> Notice:
    if plan.category is not None and plan.category not in known:
        return Notice("unknown_category", _unknown_category(plan.category, known))
    where = "" if last.category is None else f" in category '{last.category}'"
    guessed = " The query names it; no other was searched." if where and not plan.category else ""
    return Notice("nothing_found", f"Nothing was found{where}.{guessed}")


def _unknown_category(category: str, known: tuple[str, ...]) -> str:
    folded = list(dict.fromkeys(name.lower() for name in known))
    near = difflib.get_close_matches(category.lower(), folded, n=3, cutoff=0.6)
    nearest = [name for match in near for name in known if name.lower() == match] or known[:10]
    hint = f" Did you mean: {', '.join(nearest)}?" if nearest else " No document has a category."
    return f"No document has the category '{category}'.{hint}"
