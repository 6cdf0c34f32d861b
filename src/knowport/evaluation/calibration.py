"""Calibration: labelled queries to thresholds, a report on held-out queries, a stored file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knowport.core.calibration import FILE_NAME, Calibration, Fingerprint, dump_calibration
from knowport.core.relevance import Thresholds
from knowport.errors import ConfigurationError
from knowport.evaluation import fitting
from knowport.evaluation.fitting import HeldOut, Sample
from knowport.evaluation.statistics import Floats, bootstrap, mean
from knowport.evaluation.summary import ratio, risk_curve

REFUSE_BELOW = 0.5
OPERATING_POINTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``thresholds`` is None where calibration was refused, and ``refusal`` says why."""

    thresholds: Thresholds | None
    refusal: str
    report: Mapping[str, Any]


def calibrate(
    samples: Sequence[Sample],
    current: Thresholds,
    *,
    refuse_below: float = REFUSE_BELOW,
    keep_weight: bool = False,
    seed: int,
) -> Outcome:
    """Fit thresholds to the samples, or refuse; see ``fitting``.

    ``refuse_below`` is the least P(right) of an answer, above 0 and below 0.75. Pure.
    """
    kinds = {
        "queries": len(samples),
        "right": sum(s.right for s in samples),
        "wrong": sum(not s.right for s in samples),
        "unanswerable": sum(not s.answerable for s in samples),
    }
    settings = {"seed": seed, "refuse_below": refuse_below, "keep_weight": keep_weight}
    if reason := fitting.too_few(samples):
        return Outcome(None, f"Too few data: {reason}.", {**kinds, **settings})
    right = np.array([sample.right for sample in samples])
    weights = (_weights(current),) if keep_weight else fitting.WEIGHTS
    held_out = fitting.cross_validate(samples, weights, refuse_below, seed=seed)
    interval = fitting.auroc_interval(held_out.probability, right, seed=seed)
    fitted = fitting.fit(samples, weights)
    found = fitting.thresholds(fitted, refuse_below, current.language_offset)
    report: dict[str, Any] = {
        **kinds,
        **settings,
        "auroc": {
            "mean": fitting.auroc(held_out.probability, right),
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
        },
        "auroc_of_features": _features(samples, right, current),
        "held_out": _refusals(samples, held_out.refused, seed=seed),
        "in_force": _refusals(samples, np.array([float(s.refused) for s in samples]), seed=seed),
        "operating_points": _operating_points(samples, held_out),
        "risk_coverage": _risk_coverage(samples, held_out),
        "levels": _levels(samples, found),
        "thresholds": None if found is None else asdict(found),
    }
    if found is None or interval is None or interval.low <= 0.5:
        ends = "none" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}"
        return Outcome(
            None,
            "No separation: the scores of right and wrong evidence overlap so much that any "
            "threshold would be a coin's toss (held-out AUROC "
            f"{report['auroc']['mean']:.2f}, 95 % interval {ends}; it must lie above 0.5).",
            report,
        )
    return Outcome(found, "", report)


def _weights(of: Thresholds) -> fitting.Weights:
    return of.lexical_weight, of.amount_weight


def _features(samples: Sequence[Sample], right: fitting.Truth, current: Thresholds) -> Any:
    """AUROC of single features and of the score in force, for comparison; not held out."""
    cosine = np.array([max(b.cosine for b in s.blocks) for s in samples])
    coverage = np.array([max(b.coverage for b in s.blocks) for s in samples])
    amount = np.array([max(b.amount for b in s.blocks) for s in samples])
    features = {
        "cosine": cosine,
        "coverage": coverage,
        "amount": amount,
        "score in force": fitting.scores(samples, _weights(current)),
    }
    return {name: fitting.auroc(values, right) for name, values in features.items()}


def _refusals(samples: Sequence[Sample], refused: Floats, *, seed: int) -> dict[str, Any]:
    """Precision and recall of refusing (the positive case: the evidence is wrong)."""
    wrong = np.array([float(not s.right) for s in samples])
    none = np.array([float(not s.answerable) for s in samples])
    ratios = {
        "refusal_precision": (refused * wrong, refused),
        "refusal_recall": (refused * wrong, wrong),
        "unanswerable_refused": (refused * none, none),
        "right_refused": (refused * (1 - wrong), 1 - wrong),
    }
    found = {}
    for name, (above, below) in ratios.items():
        value = float(above.sum() / below.sum()) if below.sum() else None
        interval = (
            bootstrap(len(samples), ratio(above, below), seed=seed) if value is not None else None
        )
        found[name] = {
            "mean": value,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
        }
    return found


def _operating_points(samples: Sequence[Sample], held_out: HeldOut) -> list[dict[str, Any]]:
    """Refusal figures for other values of ``refuse_below``, from the held-out probabilities."""
    wrong = np.array([not s.right for s in samples])
    none = np.array([not s.answerable for s in samples])
    rows = []
    for point in OPERATING_POINTS:
        refused = held_out.probability < point
        both = int((refused & wrong).sum())
        rows.append(
            {
                "refuse_below": point,
                "refused": int(refused.sum()),
                "refusal_precision": both / int(refused.sum()) if refused.any() else None,
                "refusal_recall": both / int(wrong.sum()),
                "unanswerable_refused": mean(refused[none].astype(float).tolist()),
            }
        )
    return rows


def _risk_coverage(samples: Sequence[Sample], held_out: HeldOut) -> list[tuple[float, float]]:
    order = np.argsort(-held_out.probability, kind="stable")
    pairs = [(float(held_out.probability[at]), not samples[at].right) for at in order]
    return risk_curve(pairs, len(samples))


def _levels(samples: Sequence[Sample], found: Thresholds | None) -> dict[str, Any]:
    """How many queries get each level, and the share of right ones; not held out."""
    if found is None:
        return {}
    values = fitting.scores(samples, _weights(found))
    bounds = [-np.inf, found.low, found.medium, found.high, np.inf]
    right = np.array([s.right for s in samples])
    levels = {}
    for name, low, high in zip(("none", "low", "medium", "high"), bounds, bounds[1:], strict=False):
        inside = (values >= low) & (values < high)
        levels[name] = {
            "queries": int(inside.sum()),
            "right": mean(right[inside].astype(float).tolist()),
        }
    return levels


def store(
    home: Path,
    thresholds: Thresholds,
    kb_scope: str,
    fitted_on: Fingerprint,
    report: Mapping[str, Any],
) -> Path:
    """Write ``calibration.json`` whole or not at all; returns its path."""
    path = home / FILE_NAME
    beside = path.with_suffix(".json.new")
    try:
        beside.write_text(
            dump_calibration(Calibration(thresholds, kb_scope), fitted_on, report),
            encoding="utf-8",
        )
        os.replace(beside, path)  # noqa: PTH105  # the atomic one, by name
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error}.", remedy="Mend the permissions of the home."
        ) from error
    return path
