"""Holds a new generation of an index against the active one by labelled queries.

Every query is looked up in both, and the documents that come are held against its labels. Then it
is looked up again, by turns, and timed: both generations often share an embedder that remembers
queries, so whichever were asked first would pay for both.

The new generation is refused where it is clearly worse: the mean falls by more than ``TOLERANCE``
and the paired test says that this is no accident, or by more than ``LARGE`` whatever a test
of few queries may say; where lookups fail or lose a leg, twice, that the active generation answers
with both; or where the median lookup takes half as long again and at least ``SLOWER_SECONDS``
longer. A lookup that fails counts as one that finds nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from knowport.errors import (
    ConfigurationError,
    EmbeddingError,
    EngineError,
    InvalidInput,
    KnowportError,
)
from knowport.evaluation import measures, statistics
from knowport.evaluation.labelled import LabelledQuery, Resolver
from knowport.model import LookupResult
from knowport.pipelines.rebuild_ports import Judge, Lookup, Verdict
from knowport.pipelines.rebuild_sides import Side

MEASURE = "nDCG@10"
TOLERANCE = 0.01
LARGE = 0.1
SIGNIFICANT = 0.05
SLOWER_BY, SLOWER_SECONDS = 1.5, 0.02
# So many queries are timed: a median needs no more.
TIMED = 200
_NAMED = 10
# The generation cannot be searched.
_UNREAD = (ConfigurationError, EngineError)
_FAILS = (*_UNREAD, EmbeddingError, InvalidInput)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A query in both generations: values of ``MEASURE``, and what is wrong in the new one
    alone."""

    query: LabelledQuery
    active: float
    new: float
    lost_leg: bool = False
    failure: str = ""


def judge_by(
    queries: Sequence[LabelledQuery],
    doc_ids: Iterable[str],
    *,
    seed: int,
    on_query: Callable[[int, int], None] = lambda _done, _total: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Judge:
    """A judge by labelled queries; ``doc_ids`` are the documents of the knowledge base.

    Queries without an answer say nothing about ranking and are left out, as are those whose
    documents are not in the index, or not in one version in both generations, and those that
    cannot be looked up in the active one. Where that fails for all that the new one can look up,
    the judge raises what it raised.
    """
    resolve = Resolver(doc_ids)
    gold = {query.query_id: {*map(resolve, query.documents)} - {""} for query in queries}
    asked = [query for query in queries if gold[query.query_id]]

    def judge(active: Lookup, new: Lookup) -> Verdict:
        pairs: list[_Pair] = []
        seconds: list[tuple[float, float]] = []
        unread: list[KnowportError] = []
        for done, query in enumerate(asked):
            on_query(done, len(asked))
            found, found_now = _tried(active, query.text), _tried(new, query.text)
            fails = isinstance(found_now, KnowportError)
            if isinstance(found, KnowportError):
                unread += [found] if isinstance(found, _UNREAD) and not fails else []
                continue
            pairs.append(_pair(query, gold[query.query_id], found, found_now))
            if not fails and len(seconds) < TIMED:
                seconds += _timed(query.text, active, new, clock, new_first=bool(done % 2))
        on_query(len(asked), len(asked))
        if unread and not pairs:
            raise unread[-1]
        behind = new.behind() if isinstance(new, Side) else frozenset()
        equal = [pair for pair in pairs if behind.isdisjoint(gold[pair.query.query_id])]
        return _verdict(equal, seconds, left_out=len(queries) - len(equal), seed=seed)

    return judge


def _tried(look_up: Lookup, text: str) -> LookupResult | KnowportError:
    """What is found, or the error; asked again where it fails or loses a leg, which may be of the
    moment."""
    found = _once(look_up, text)
    poor = isinstance(found, KnowportError) or _degraded(found)
    return _once(look_up, text) if poor else found


def _once(look_up: Lookup, text: str) -> LookupResult | KnowportError:
    try:
        return look_up(text)
    except _FAILS as error:
        return error


def _timed(
    text: str, active: Lookup, new: Lookup, clock: Callable[[], float], *, new_first: bool
) -> list[tuple[float, float]]:
    """Seconds of a lookup in the active and in the new generation; nothing where one fails."""
    taken: list[float] = []
    for look_up in (new, active) if new_first else (active, new):
        start = clock()
        if isinstance(_once(look_up, text), KnowportError):
            return []
        taken.append(clock() - start)
    return [(taken[1], taken[0]) if new_first else (taken[0], taken[1])]


def _pair(
    query: LabelledQuery, gold: set[str], active: LookupResult, new: LookupResult | KnowportError
) -> _Pair:
    value = _value(active, gold)
    if isinstance(new, KnowportError):
        return _Pair(query, value, 0.0, failure=new.message.rstrip("."))
    return _Pair(query, value, _value(new, gold), lost_leg=_degraded(new) and not _degraded(active))


def _value(result: LookupResult, gold: set[str]) -> float:
    """The measure over all candidates: levels may be calibrated for one generation only."""
    ordered = sorted(result.candidates, key=lambda found: (found.rank, found.key))
    documents = list(dict.fromkeys(found.hit.doc_id for found in ordered))
    value = measures.ranking_measure(MEASURE, documents, dict.fromkeys(gold, 1))
    assert value is not None  # there is gold
    return value


def _degraded(result: LookupResult) -> bool:
    return any(notice.code == "degraded" for notice in result.notices)


def _verdict(
    pairs: Sequence[_Pair], seconds: Sequence[tuple[float, float]], *, left_out: int, seed: int
) -> Verdict:
    compared = statistics.compare([p.active for p in pairs], [p.new for p in pairs], seed=seed)
    if compared is None:
        failure = (
            f"none of the labelled queries could be compared ({left_out} left out): they name no "
            "document of this knowledge base, or it has just changed"
        )
        return Verdict((failure,), {"queries": 0, "left_out": left_out})
    medians = {
        "active": statistics.percentile([active for active, _ in seconds], 0.5) or 0.0,
        "new": statistics.percentile([new for _, new in seconds], 0.5) or 0.0,
    }
    worse = sorted(
        (p for p in pairs if p.new < p.active), key=lambda p: (p.new - p.active, p.query.query_id)
    )
    failures = []
    significant = compared.delta < -TOLERANCE and compared.p_value < SIGNIFICANT
    if significant or compared.delta < -LARGE:
        named = ", ".join(
            f"{p.query.query_id} ({p.active:.2f} to {p.new:.2f})" for p in worse[:_NAMED]
        )
        failures.append(
            f"{MEASURE} over {compared.queries} labelled queries falls from {compared.mean_a:.3f} "
            f"to {compared.mean_b:.3f} (p = {compared.p_value:.3g}); worse are {named}"
        )
    failed = [p for p in pairs if p.failure]
    if failed:
        named = ", ".join(f"{p.query.query_id} ({p.failure})" for p in failed[:_NAMED])
        failures.append(f"{len(failed)} labelled queries fail in the new generation alone: {named}")
    lost = [p.query.query_id for p in pairs if p.lost_leg]
    if lost:
        failures.append(
            f"{len(lost)} labelled queries lose a leg of the search: {', '.join(lost[:_NAMED])}"
        )
    slower = medians["new"] - medians["active"]
    if medians["new"] > SLOWER_BY * medians["active"] and slower > SLOWER_SECONDS:
        failures.append(
            f"the median lookup takes {1000 * medians['new']:.0f} ms, in the active generation "
            f"{1000 * medians['active']:.0f} ms"
        )
    report = {
        "measure": MEASURE,
        "comparison": asdict(compared),
        "left_out": left_out,
        "worse": [
            {"query_id": p.query.query_id, "text": p.query.text, "active": p.active, "new": p.new}
            for p in worse[:_NAMED]
        ],
        "failed": [
            {"query_id": p.query.query_id, "text": p.query.text, "error": p.failure}
            for p in failed[:_NAMED]
        ],
        "median_ms": {name: round(1000 * value, 3) for name, value in medians.items()},
    }
    return Verdict(tuple(failures), report)
