"""Intervals and tests over per-query values. Seeded: the same values give the same figures.

*Interval* of a mean: percentile bootstrap (Efron 1979) over queries, ``RESAMPLES`` resamples, 95 %.
One query alone has no interval.

*Paired test*: two-sided randomisation (Fisher 1935; Smucker et al. 2007 for retrieval): under the
null hypothesis the sign of each query's difference is a coin's. With at most ``EXACT_UP_TO``
differences that are not zero all sign patterns are counted and p is exact; with more,
``PERMUTATIONS`` random patterns are drawn and p = (1 + as extreme) / (1 + drawn), never 0. The
p values are not corrected for looking at several groups or measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
PERMUTATIONS = 10_000
EXACT_UP_TO = 13
CONFIDENCE = 0.95
# Differences of means that only rounding makes.
_EPSILON = 1e-12
_BLOCK = 2_000_000

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """Ends of a confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A over the queries that both have; ``delta`` is mean B minus mean A."""

    queries: int
    mean_a: float
    mean_b: float
    delta: float
    interval: Interval | None
    p_value: float
    exact: bool
    wins: int
    losses: int
    ties: int


def mean(values: Sequence[float]) -> float | None:
    """Mean, None of nothing."""
    return float(np.mean(np.asarray(values, dtype=np.float64))) if len(values) else None


def bootstrap_mean(values: Sequence[float], *, seed: int) -> Interval | None:
    """Interval of a mean; None for fewer than two values."""
    sample = np.asarray(values, dtype=np.float64)
    return bootstrap(len(sample), lambda rows: sample[rows].mean(axis=1), seed=seed)


def bootstrap(count: int, statistic: Callable[[Indices], Floats], *, seed: int) -> Interval | None:
    """Interval of any statistic of ``count`` items; None for fewer than two.

    ``statistic`` gets resampled positions, one resample a row, and gives one value a row; rows
    where it is NaN (say, a precision of nothing) are left out. None if hardly any is left.
    """
    if count < 2:
        return None
    rng = np.random.default_rng(seed)
    step = max(1, _BLOCK // count)
    found = [
        statistic(rng.integers(0, count, size=(min(step, RESAMPLES - start), count)))
        for start in range(0, RESAMPLES, step)
    ]
    values = np.concatenate(found)
    values = values[~np.isnan(values)]
    if len(values) < RESAMPLES // 10:
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high))


def randomisation_test(differences: Sequence[float], *, seed: int) -> tuple[float, bool]:
    """``(p, exact)`` of the paired two-sided test; p is 1 where nothing differs."""
    all_of_them = np.asarray(differences, dtype=np.float64)
    moved = all_of_them[np.abs(all_of_them) > _EPSILON]
    count = len(moved)
    if count == 0:
        return 1.0, True
    observed = abs(moved.sum()) - _EPSILON * count
    if count <= EXACT_UP_TO:
        patterns = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        extreme = np.abs(((2 * patterns - 1) * moved).sum(axis=1)) >= observed
        return float(extreme.mean()), True
    rng = np.random.default_rng(seed)
    step, seen = max(1, _BLOCK // count), 0
    for start in range(0, PERMUTATIONS, step):
        signs = rng.integers(0, 2, size=(min(step, PERMUTATIONS - start), count)) * 2 - 1
        seen += int((np.abs((signs * moved).sum(axis=1)) >= observed).sum())
    return (1 + seen) / (1 + PERMUTATIONS), False


def compare(a: Sequence[float], b: Sequence[float], *, seed: int) -> Comparison | None:
    """Paired comparison of the values of the same queries; None for no query."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values against {len(b)}: they must be of the same queries")
    if not a:
        return None
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    differences = second - first
    p_value, exact = randomisation_test(differences.tolist(), seed=seed)
    wins = int((differences > _EPSILON).sum())
    losses = int((differences < -_EPSILON).sum())
    return Comparison(
        queries=len(a),
        mean_a=float(first.mean()),
        mean_b=float(second.mean()),
        delta=float(differences.mean()),
        interval=bootstrap_mean(differences.tolist(), seed=seed),
        p_value=p_value,
        exact=exact,
        wins=wins,
        losses=losses,
        ties=len(a) - wins - losses,
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """Percentile by linear interpolation, ``share`` in 0..1; None of nothing."""
    return float(np.quantile(np.asarray(values, dtype=np.float64), share)) if len(values) else None
