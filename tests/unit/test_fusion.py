"""core/fusion.py against values worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from knowport.core.fusion import rrf


def test_score_is_the_sum_of_reciprocal_ranks_from_one() -> None:
    fused = rrf([["a", "b", "c"], ["c", "a", "d"]], k=60)

    assert fused == [
        ("a", 1 / 61 + 1 / 62),
        ("c", 1 / 63 + 1 / 61),
        ("b", 1 / 62),
        ("d", 1 / 63),
    ]


def test_k_is_60_unless_given() -> None:
    assert rrf([["a"]]) == [("a", float(Fraction(1, 61)))]
    assert rrf([["a"]], k=1) == [("a", 0.5)]


def test_weights_scale_each_ranking() -> None:
    fused = rrf([["a", "b"], ["b"]], k=1, weights=[2.0, 0.5])

    assert fused == [("a", 1.0), ("b", 2 / 3 + 0.25)]


def test_ties_are_ordered_by_id() -> None:
    assert [key for key, _ in rrf([["b", "x"], ["a", "y"]])] == ["a", "b", "x", "y"]


def test_a_document_high_in_both_beats_the_first_of_one() -> None:
    best, _ = rrf([["x", "both"], ["y", "both"]])[0]

    assert best == "both"


def test_nothing_to_fuse() -> None:
    assert rrf([]) == []
    assert rrf([[], []]) == []
    assert rrf([[], ["a"]]) == [("a", 1 / 61)]


@pytest.mark.parametrize("k", [0, -1, float("nan")])
def test_k_must_be_above_zero(k: float) -> None:
    with pytest.raises(ValueError, match="k must be above 0"):
        rrf([["a"]], k=k)


def test_every_ranking_needs_its_weight() -> None:
    with pytest.raises(ValueError, match="1 weights for 2 rankings"):
        rrf([["a"], ["b"]], weights=[1.0])


def test_an_id_twice_in_one_ranking_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        rrf([["a", "b", "a"]])
