"""core/fusion.py: two legs become one ranking, by values worked out by hand."""

from __future__ import annotations

import pytest

from knowport.core.fusion import fuse_legs
from knowport.model import LegWeights, Scores, SearchHit

EVEN = LegWeights(1.0, 1.0, "even")


def found(name: str, title: str = "", **scores: float | int | None) -> SearchHit:
    return SearchHit(name, name, 0, f"text of {name}", title, "", "s", "", Scores(**scores))  # type: ignore[arg-type]


def dense(*names: str) -> list[SearchHit]:
    """The dense leg: cosines 0.9, 0.8 and so on."""
    return [found(name, dense=0.9 - n / 10, dense_rank=n + 1) for n, name in enumerate(names)]


def sparse(*names: str) -> list[SearchHit]:
    """The lexical leg: BM25 9, 8 and so on; its own reading of every cosine is 0.1."""
    return [
        found(name, dense=0.1, sparse=9.0 - n, sparse_rank=n + 1) for n, name in enumerate(names)
    ]


def fused(*legs, weights=EVEN, k=60, **options):
    return fuse_legs(*legs, weights=weights, k=k, **options)


def test_a_hit_of_both_legs_has_the_scores_of_both() -> None:
    both, only_dense, only_sparse = fused(dense("a", "b"), sparse("a", "c"))

    assert (both.id, both.scores) == ("a", Scores(1 / 61 + 1 / 61, 0.9, 1, 9.0, 1))
    assert (only_dense.id, only_dense.scores) == ("b", Scores(1 / 62, 0.8, 2, None, None))
    assert (only_sparse.id, only_sparse.scores) == ("c", Scores(1 / 62, 0.1, None, 8.0, 2))


def test_the_rest_of_a_hit_stays_as_it_was() -> None:
    (hit,) = fused([found("a", "Title", dense=0.9, dense_rank=1)], [])

    assert (hit.content, hit.title, hit.source, hit.chunk_index) == ("text of a", "Title", "s", 0)


def test_the_weights_scale_the_legs() -> None:
    hits = fused(dense("a", "b"), sparse("b", "c"), weights=LegWeights(1.0, 0.25, "x"), k=1)

    assert [(hit.id, hit.scores.fused) for hit in hits] == [
        ("a", 1 / 2),
        ("b", 1 / 3 + 0.25 / 2),
        ("c", 0.25 / 3),
    ]


def test_weights_decide_which_leg_leads() -> None:
    legs = dense("a", "x"), sparse("b", "y")

    assert fused(*legs, weights=LegWeights(1.0, 0.5, ""))[0].id == "a"
    assert fused(*legs, weights=LegWeights(0.5, 1.0, ""))[0].id == "b"


@pytest.mark.parametrize(
    ("weights", "order"),
    [
        (LegWeights(1.0, 0.0, ""), ["z", "m", "a", "b"]),
        (LegWeights(0.0, 1.0, ""), ["b", "a", "m", "z"]),
    ],
)
def test_a_leg_of_weight_0_still_gives_its_hits_behind_all_others(weights, order) -> None:
    hits = fused(dense("z", "m"), sparse("b", "a"), weights=weights)

    assert [hit.id for hit in hits][:2] == order[:2]
    assert sorted(hit.id for hit in hits[2:]) == sorted(order[2:])
    assert [hit.scores.fused for hit in hits[2:]] == [0.0, 0.0]


def test_a_tie_goes_to_the_preferred_then_to_the_lower_id() -> None:
    legs = dense("c", "d", "b"), sparse("d", "c", "a")  # c and d tie, and b and a

    assert [hit.id for hit in fused(*legs)] == ["c", "d", "a", "b"]
    preferred = fused(*legs, prefer=lambda name: {"d": 1, "b": 2}.get(name, 0))
    assert [hit.id for hit in preferred] == ["d", "c", "b", "a"]


def test_no_preference_lifts_a_hit_over_a_better_one() -> None:
    hits = fused(dense("a", "b", "c"), [], prefer=lambda name: {"c": 1_000_000}.get(name, 0))

    assert [hit.id for hit in hits] == ["a", "b", "c"]


def test_a_leg_that_found_nothing() -> None:
    assert fused([], []) == ()
    assert [hit.scores.fused for hit in fused([], sparse("a", "b"))] == [1 / 61, 1 / 62]
    assert [hit.scores.fused for hit in fused(dense("a"), [])] == [1 / 61]


def test_the_union_is_as_wide_as_both_legs() -> None:
    legs = dense(*"abcdefgh"), sparse(*"hijklmno")

    hits = fused(*legs)

    assert sorted(hit.id for hit in hits) == list("abcdefghijklmno")
    assert hits[0].id == "h"
