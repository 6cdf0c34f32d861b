"""From recorded runs to figures: by query, by group and overall, with intervals. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np

from knowport.evaluation import measures, named, statistics
from knowport.evaluation.datasets import Dataset, Query
from knowport.evaluation.records import QueryRun
from knowport.evaluation.statistics import Floats, Indices, Interval

Values: TypeAlias = dict[str, float]
"""Values of one query by measure; a measure that does not apply is absent."""

Figure: TypeAlias = dict[str, Any]
"""``mean`` (None of nothing), ``low`` and ``high`` of the 95 % interval, ``n`` queries."""

OVERALL = "overall"
CHANGES = 10


def query_values(
    dataset: Dataset, runs: Sequence[QueryRun], more: Sequence[str] = ()
) -> list[Values]:
    """Values of each run: the usual measures, and ``more`` by ir-measures name."""
    names = dict.fromkeys((*measures.RANKING, *more))
    own = [name for name in names if measures.is_ranking_measure(name)]
    rankings = {run.query_id: run.documents for run in runs}
    others = {name: named.values(name, rankings, dataset.gold) for name in names if name not in own}
    found = []
    for run in runs:
        gold = dataset.gold.get(run.query_id, {})
        values: Values = {}
        for name in own:
            value = measures.ranking_measure(name, run.documents, gold)
            if value is not None:
                values[name] = value
        for name, by_query in others.items():
            if run.query_id in by_query:
                values[name] = by_query[run.query_id]
        found.append(
            values
            | measures.evidence_measures(run.returned, gold, run.answers, run.chunks_with_answer)
        )
    return found


def by_group(queries: Sequence[Query], by: str | None) -> dict[str, list[int]]:
    """Positions of queries by group, in order of name, after ``overall`` with all of them."""
    groups: dict[str, list[int]] = defaultdict(list)
    if by is not None:
        for position, query in enumerate(queries):
            name = query.group(by)
            groups[f"{name} (group)" if name == OVERALL else name].append(position)
    return {OVERALL: list(range(len(queries))), **dict(sorted(groups.items()))}


def figures(
    dataset: Dataset,
    runs: Sequence[QueryRun],
    values: Sequence[Values],
    positions: Sequence[int],
    *,
    seed: int,
) -> dict[str, Figure]:
    """Figures by measure over some of the queries."""
    found: dict[str, Figure] = {}
    for name in dict.fromkeys(name for of_query in values for name in of_query):
        sample = [values[at][name] for at in positions if name in values[at]]
        found[name] = _figure(
            statistics.mean(sample), statistics.bootstrap_mean(sample, seed=seed), len(sample)
        )
    return found | abstention_figures(dataset, runs, positions, seed=seed)


def abstention_figures(
    dataset: Dataset, runs: Sequence[QueryRun], positions: Sequence[int], *, seed: int
) -> dict[str, Figure]:
    """Precision and recall of refusing queries that have no relevant document."""
    refused = [not runs[at].found for at in positions]
    unanswerable = [runs[at].query_id not in dataset.gold for at in positions]
    values = measures.abstention(refused, unanswerable)
    denominators = {
        "AbstentionPrecision": np.asarray(refused, dtype=np.float64),
        "AbstentionRecall": np.asarray(unanswerable, dtype=np.float64),
    }
    both = denominators["AbstentionPrecision"] * denominators["AbstentionRecall"]
    return {
        name: _figure(
            values[name],
            statistics.bootstrap(len(positions), ratio(both, below), seed=seed)
            if values[name] is not None
            else None,
            int(below.sum()),
        )
        for name, below in denominators.items()
    }


def ratio(above: Floats, below: Floats) -> Callable[[Indices], Floats]:
    """The statistic "sum of ``above`` by sum of ``below``" for ``statistics.bootstrap``."""

    def of(rows: Indices) -> Floats:
        sums = below[rows].sum(axis=1)
        quotient: Floats = np.divide(
            above[rows].sum(axis=1), sums, out=np.full(len(sums), np.nan), where=sums > 0
        )
        return quotient

    return of


def _figure(mean: float | None, interval: Interval | None, n: int) -> Figure:
    return {
        "mean": mean,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "n": n,
    }


def latency(runs: Sequence[QueryRun]) -> dict[str, dict[str, float | None]]:
    """Milliseconds by step, p50 and p95; ``total`` is what a caller waits. Failed queries have
    no times."""
    steps = dict.fromkeys(step for run in runs for step in run.milliseconds)
    return {
        step: {
            f"p{share}": statistics.percentile(
                [run.milliseconds[step] for run in runs if step in run.milliseconds], share / 100
            )
            for share in (50, 95)
        }
        for step in steps
    }


def behaviour(
    dataset: Dataset, runs: Sequence[QueryRun], positions: Sequence[int]
) -> dict[str, int]:
    """Counts of what the pipeline did.

    ``rescued``: the guessed filter did not serve, the search without it answered, and a relevant
    document is in the evidence. ``refused_answerable``: nothing returned though there is gold.
    """
    chosen = [runs[at] for at in positions]

    def right(run: QueryRun) -> bool:
        gold = dataset.gold.get(run.query_id, {})
        return any(chunk.doc_id in gold for chunk in run.returned)

    fell_back = [run for run in chosen if len(run.attempts) > 1]
    return {
        "queries": len(chosen),
        "unanswerable": sum(run.query_id not in dataset.gold for run in chosen),
        "errors": sum(bool(run.error) for run in chosen),
        "degraded": sum("degraded" in run.notices for run in chosen),
        "refused": sum(not run.found for run in chosen),
        "refused_answerable": sum(not r.found and r.query_id in dataset.gold for r in chosen),
        "guessed_filter": sum(bool(run.guessed_category) for run in chosen),
        "fell_back": len(fell_back),
        "rescued": sum(right(run) for run in fell_back),
    }


def risk_coverage(dataset: Dataset, runs: Sequence[QueryRun]) -> list[tuple[float, float]]:
    """``(coverage, risk)`` while the threshold on the relevance score falls (El-Yaniv and Wiener
    2010): the share of queries that are answered, and the share of those whose evidence, without
    thresholds, holds no relevant document. Equal scores enter together."""
    scored = sorted(
        (
            (
                run.score,
                not any(d in dataset.gold.get(run.query_id, {}) for d in run.unfiltered_documents),
            )
            for run in runs
            if run.score is not None
        ),
        key=lambda pair: -pair[0],
    )
    return risk_curve(scored, len(runs))


def risk_curve(scored: Sequence[tuple[float, bool]], total: int) -> list[tuple[float, float]]:
    """The curve of ``(score, is wrong)``, best first."""
    curve, wrong = [], 0
    for answered, (score, is_wrong) in enumerate(scored, start=1):
        wrong += is_wrong
        if answered == len(scored) or scored[answered][0] < score:
            curve.append((answered / total, wrong / answered))
    return curve


def comparison(
    a: Sequence[Values],
    b: Sequence[Values],
    groups: Mapping[str, Sequence[int]],
    *,
    seed: int,
) -> dict[str, dict[str, dict[str, Any]]]:
    """By group and measure: B against A over the queries that have the measure."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    names = dict.fromkeys(name for of_query in (*a, *b) for name in of_query)
    for group, positions in groups.items():
        found[group] = {}
        for name in names:
            both = [at for at in positions if name in a[at] and name in b[at]]
            compared = statistics.compare(
                [a[at][name] for at in both], [b[at][name] for at in both], seed=seed
            )
            if compared is not None:
                found[group][name] = asdict(compared)
    return found


def changes(
    queries: Sequence[Query], a: Sequence[Values], b: Sequence[Values], name: str
) -> list[dict[str, Any]]:
    """The ten queries whose value changed most, largest first, equal ones in order of id."""
    moved: list[dict[str, Any]] = [
        {
            "query_id": query.query_id,
            "text": query.text,
            "a": of_a[name],
            "b": of_b[name],
            "delta": of_b[name] - of_a[name],
        }
        for query, of_a, of_b in zip(queries, a, b, strict=True)
        if name in of_a and name in of_b and of_a[name] != of_b[name]
    ]
    return sorted(moved, key=lambda row: (-abs(row["delta"]), row["query_id"]))[:CHANGES]
