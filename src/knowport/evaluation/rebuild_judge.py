"""Holds a new generation of an index against the active one by labelled queries.

Every query is looked up in both, by turns, and the documents that come are held against its
labels.
The new generation is refused where it is clearly worse: the mean falls by more than ``TOLERANCE``
and the paired test says that this is no accident, or by more than ``LARGE`` whatever a test
of few queries may say; where lookups lose a leg that the active generation has; or where the median
lookup takes half as long again and at least ``SLOWER_SECONDS`` longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from knowport.errors import EmbeddingError, InvalidInput
from knowport.evaluation import measures, statistics
from knowport.evaluation.labelled import LabelledQuery, Resolver
from knowport.model import LookupResult
from knowport.pipelines.rebuild_ports import Judge, Lookup, Verdict

MEASURE = "nDCG@10"
TOLERANCE = 0.01
LARGE = 0.1
SIGNIFICANT = 0.05
SLOWER_BY, SLOWER_SECONDS = 1.5, 0.02
_WARM_UP = 3
_NAMED = 10


@dataclass(frozen=True, slots=True)
class _Pair:
    """A query in both generations: values of ``MEASURE`` and seconds."""

    query: LabelledQuery
    active: float
    new: float
    active_seconds: float
    new_seconds: float
    lost_leg: bool


def judge_by(
    queries: Sequence[LabelledQuery],
    doc_ids: Iterable[str],
    *,
    seed: int,
    on_query: Callable[[int, int], None] = lambda _done, _total: None,
) -> Judge:
    """A judge by labelled queries; ``doc_ids`` are the documents of the knowledge base.

    Queries without an answer say nothing about ranking and are left out, as are those whose
    documents are not in the index, and those that cannot be looked up.
    """
    resolve = Resolver(doc_ids)
    gold = {query.query_id: {*map(resolve, query.documents)} - {""} for query in queries}
    asked = [query for query in queries if gold[query.query_id]]

    def judge(active: Lookup, new: Lookup) -> Verdict:
        for query in asked[:_WARM_UP]:  # the first lookups load models and caches
            _pair(query, gold[query.query_id], active, new, new_first=False)
        pairs = []
        for done, query in enumerate(asked):
            on_query(done, len(asked))
            pair = _pair(query, gold[query.query_id], active, new, new_first=bool(done % 2))
            if pair is not None:
                pairs.append(pair)
        on_query(len(asked), len(asked))
        return _verdict(pairs, left_out=len(queries) - len(pairs), seed=seed)

    return judge


def _pair(
    query: LabelledQuery, gold: set[str], active: Lookup, new: Lookup, *, new_first: bool
) -> _Pair | None:
    sides = {"active": active, "new": new}
    results: dict[str, LookupResult] = {}
    seconds: dict[str, float] = {}
    for name in reversed(sides) if new_first else sides:
        start = time.perf_counter()
        try:
            results[name] = sides[name](query.text)
        except (EmbeddingError, InvalidInput):
            return None
        seconds[name] = time.perf_counter() - start
    values = {name: _value(result, gold) for name, result in results.items()}
    return _Pair(
        query,
        values["active"],
        values["new"],
        seconds["active"],
        seconds["new"],
        lost_leg=_degraded(results["new"]) and not _degraded(results["active"]),
    )


def _value(result: LookupResult, gold: set[str]) -> float:
    """The measure over all candidates: levels may be calibrated for one generation only."""
    ordered = sorted(result.candidates, key=lambda found: (found.rank, found.key))
    documents = list(dict.fromkeys(found.hit.doc_id for found in ordered))
    value = measures.ranking_measure(MEASURE, documents, dict.fromkeys(gold, 1))
    assert value is not None  # there is gold
    return value


def _degraded(result: LookupResult) -> bool:
    return any(notice.code == "degraded" for notice in result.notices)


def _verdict(pairs: Sequence[_Pair], *, left_out: int, seed: int) -> Verdict:
    compared = statistics.compare([p.active for p in pairs], [p.new for p in pairs], seed=seed)
    if compared is None:
        return Verdict(("None of the labelled queries could be compared.",), {"queries": 0})
    medians = {
        "active": statistics.percentile([p.active_seconds for p in pairs], 0.5) or 0.0,
        "new": statistics.percentile([p.new_seconds for p in pairs], 0.5) or 0.0,
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
        "median_ms": {name: round(1000 * value, 3) for name, value in medians.items()},
    }
    return Verdict(tuple(failures), report)
