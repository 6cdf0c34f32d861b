"""Fits the thresholds of ``core.relevance`` to labelled queries. Pure and seeded.

*Sample*: one query. It is **right** where a relevant document is in the evidence as it would be
without thresholds (at most ``rag.return_n`` blocks); else it is **wrong**, be it that the query has
no answer or that the search missed it: shown to an agent, both mislead.

*Score* of a query, as the product computes it: over the blocks
highest of the scores of ``core.relevance``; the lookup is refused where
it is below ``low``. The offset stays as it is.

*Fit*: logistic regression ``P(right) = 1 / (1 + exp(-(a + b * score)))`` by Newton's method, with
a ridge of ``RIDGE / 2 * b**2`` on the standardised score, so that separable data have a finite
slope (le Cessie and van Houwelingen 1992). The lexical weights are the pair of ``WEIGHTS`` with the
highest likelihood. A level's threshold is the score at which P reaches the level's probability:
``low`` at ``refuse_below`` (0.5: below, refusing is right more often than not), ``medium`` at 0.75,
``high`` at 0.9. P holds for the labelled mix of queries: with more unanswerable ones in real life
it is lower.

*Held-out figures*: stratified ``FOLDS``-fold cross-validation, ``REPEATS`` times with other
shuffles; the weight and the fit are made anew in every fold, and a query is judged by folds that
did not see it. AUROC is the chance that a right sample scores above a wrong one, ties half.
Intervals are bootstraps over queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from knowport.core.relevance import Thresholds
from knowport.evaluation.statistics import Floats, Indices, Interval, bootstrap

MIN_QUERIES = 15
MIN_OF_A_KIND = 5
FOLDS = 5
REPEATS = 10
RIDGE = 1.0
MEDIUM_AT, HIGH_AT = 0.75, 0.9
Weights: TypeAlias = tuple[float, float]
"""Of the coverage and of the amount."""

WEIGHTS: tuple[Weights, ...] = tuple(
    (coverage / 10, amount / 25) for coverage in range(6) for amount in range(6)
)
_STEPS = 100

Truth = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Block:
    """One candidate chunk: cosine -1..1, coverage 0..1, amount (``core.relevance``), and what the
    language offset added to its score."""

    cosine: float
    coverage: float
    amount: float = 0.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One labelled query. ``refused`` tells what the thresholds in force did."""

    query_id: str
    answerable: bool
    right: bool
    blocks: tuple[Block, ...]
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """``P(right) = sigmoid(intercept + slope * score)`` with these lexical weights."""

    intercept: float
    slope: float
    weights: Weights

    def probability(self, scores: Floats) -> Floats:
        """P(right) of scores, 0..1."""
        found: Floats = _sigmoid(self.intercept + self.slope * scores)
        return found

    def score_at(self, probability: float) -> float:
        """The score at which P reaches a probability in 0..1, both excluded."""
        return float((np.log(probability / (1 - probability)) - self.intercept) / self.slope)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What folds said of queries that they had not seen, one to one with the samples.

    ``probability`` is the mean of P(right), ``refused`` the share of repeats that refuse, 0..1.
    """

    probability: Floats
    refused: Floats


def too_few(samples: Sequence[Sample]) -> str:
    """Why there are too few data, or ''."""
    right = sum(sample.right for sample in samples)
    wrong = len(samples) - right
    if len(samples) < MIN_QUERIES:
        return f"{len(samples)} queries can be used; at least {MIN_QUERIES} are needed"
    if min(right, wrong) < MIN_OF_A_KIND:
        return (
            f"{right} queries bring right evidence and {wrong} do not; "
            f"at least {MIN_OF_A_KIND} of either kind are needed"
        )
    return ""


def scores(samples: Sequence[Sample], weights: Weights) -> Floats:
    """Relevance score of each sample under lexical weights."""
    coverage, amount = weights
    return np.array(
        [
            max(b.cosine + coverage * b.coverage + amount * b.amount + b.offset for b in s.blocks)
            for s in samples
        ],
        dtype=np.float64,
    )


def logistic(x: Floats, right: Truth) -> tuple[float, float, float]:
    """``(intercept, slope, penalised log likelihood)`` of P(right) by x; both kinds must occur."""
    centre, scale = float(x.mean()), float(x.std()) or 1.0
    design = np.stack([np.ones_like(x), (x - centre) / scale], axis=1)
    y = right.astype(np.float64)
    ridge = np.array([0.0, RIDGE])
    beta = np.zeros(2)
    value = _likelihood(design, y, beta, ridge)
    for _ in range(_STEPS):
        p = _sigmoid(design @ beta)
        gradient = design.T @ (y - p) - ridge * beta
        curvature = (design * np.maximum(p * (1 - p), 1e-12)[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        size, before = 1.0, value
        while (value := _likelihood(design, y, beta + size * step, ridge)) < before and size > 1e-6:
            size /= 2
        beta = beta + size * step
        if float(np.abs(size * step).max()) < 1e-10:
            break
    slope = float(beta[1]) / scale
    return float(beta[0]) - slope * centre, slope, value


def fit(samples: Sequence[Sample], weights: Sequence[Weights] = WEIGHTS) -> Fit:
    """The best fit over the weights; of equal ones the first."""
    right = np.array([sample.right for sample in samples])
    found = [(logistic(scores(samples, pair), right), pair) for pair in weights]
    (intercept, slope, _), chosen = max(found, key=lambda item: item[0][2])
    return Fit(intercept, slope, chosen)


def thresholds(fitted: Fit, refuse_below: float, language_offset: float) -> Thresholds | None:
    """Thresholds of a fit; None where a higher score does not speak for right evidence."""
    if not fitted.slope > 0:
        return None
    low, medium, high = (fitted.score_at(p) for p in (refuse_below, MEDIUM_AT, HIGH_AT))
    return Thresholds(low, medium, high, *fitted.weights, language_offset, calibrated=True)


def cross_validate(
    samples: Sequence[Sample], weights: Sequence[Weights], refuse_below: float, *, seed: int
) -> HeldOut:
    """Judge every sample by fits that did not see it."""
    right = np.array([sample.right for sample in samples])
    folds = min(FOLDS, int(right.sum()), int((~right).sum()))
    rng = np.random.default_rng(seed)
    probability, refused = np.zeros(len(samples)), np.zeros(len(samples))
    for _ in range(REPEATS):
        place = _stratified(right, folds, rng)
        for fold in range(folds):
            seen = [samples[at] for at in np.flatnonzero(place != fold).tolist()]
            held = np.flatnonzero(place == fold)
            fitted = fit(seen, weights)
            p = fitted.probability(scores([samples[at] for at in held.tolist()], fitted.weights))
            probability[held] += p / REPEATS
            refused[held] += (p < refuse_below) / REPEATS
    return HeldOut(probability, refused)


def _stratified(right: Truth, folds: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    place = np.empty(len(right), dtype=np.int64)
    for kind in (right, ~right):
        members = rng.permutation(np.flatnonzero(kind))
        place[members] = np.arange(len(members)) % folds
    return place


def auroc(values: Floats, right: Truth) -> float:
    """Chance that a right sample's value is above a wrong one's, ties half; 0..1."""
    return float(_above(values, right).mean())


def auroc_interval(values: Floats, right: Truth, *, seed: int) -> Interval | None:
    """Bootstrap interval of the AUROC."""
    above = _above(values, right)
    count = len(values)

    def of(rows: Indices) -> Floats:
        drawn = np.stack([np.bincount(row, minlength=count) for row in rows]).astype(np.float64)
        good, bad = drawn[:, right], drawn[:, ~right]
        pairs = good.sum(axis=1) * bad.sum(axis=1)
        found: Floats = np.divide(
            ((good @ above) * bad).sum(axis=1),
            pairs,
            out=np.full(len(rows), np.nan),
            where=pairs > 0,
        )
        return found

    return bootstrap(count, of, seed=seed)


def _above(values: Floats, right: Truth) -> Floats:
    good, bad = values[right][:, None], values[~right][None, :]
    found: Floats = (good > bad) + 0.5 * (good == bad)
    return found


def _likelihood(design: Floats, y: Floats, beta: Floats, ridge: Floats) -> float:
    z = design @ beta
    return float((y * z - np.logaddexp(0.0, z)).sum() - 0.5 * (ridge * beta * beta).sum())


def _sigmoid(z: Floats) -> Floats:
    found: Floats = np.exp(-np.logaddexp(0.0, -z))
    return found
