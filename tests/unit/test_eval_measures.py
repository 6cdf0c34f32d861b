"""evaluation/measures.py: the cases that people were bitten by (V01, V02, V04)."""

from __future__ import annotations

import pytest

from knowport.evaluation.measures import (
    ChunkSpan,
    abstention,
    evidence_measures,
    is_ranking_measure,
    ranking_measure,
)


def test_a_query_without_gold_has_no_ranking_measure() -> None:
    assert ranking_measure("nDCG@10", ["a"], {}) is None
    assert "EvidencePrecision@5" not in evidence_measures([ChunkSpan("a", 0, 9)], {}, [], 0)


@pytest.mark.parametrize("name", ["nDCG@10", "R@1", "R@5", "R@10", "RR@10"])
def test_an_unanswered_query_scores_zero(name: str) -> None:
    assert ranking_measure(name, [], {"a": 1}) == 0.0


def test_chunks_of_one_document_count_once() -> None:
    run = ["a", "a", "b"]
    assert ranking_measure("R@3", run, {"a": 1}) == 1.0
    assert ranking_measure("nDCG@3", run, {"a": 1}) == 1.0
    assert ranking_measure("R@2", ["a", "a"], {"a": 1, "b": 1}) == 0.5
    returned = [ChunkSpan("a", 0, 5), ChunkSpan("a", 5, 9), ChunkSpan("b", 0, 5)]
    assert evidence_measures(returned, {"a": 1}, [], 0)["EvidencePrecision@5"] == 0.5


def test_recall_is_of_all_gold_and_not_of_what_was_found() -> None:
    gold = {f"g{number}": 1 for number in range(20)}
    assert ranking_measure("R@10", ["g0", "x"], gold) == 0.05
    assert ranking_measure("R@10", ["a"], {"a": 1}) == 1.0, "k may exceed what came back"


def test_an_id_is_matched_whole() -> None:
    assert ranking_measure("nDCG@3", ["a#chunk-0", "z#chunk-0"], {"a#chunk-0_2": 1}) == 0.0


def test_graded_relevance() -> None:
    # DCG 1/log2(2) + 2/log2(3), ideal 2/log2(2) + 1/log2(3)
    assert ranking_measure("nDCG@10", ["one", "two"], {"one": 1, "two": 2}) == pytest.approx(
        2.2618595071429146 / 2.6309297535714578
    )


def test_ties_have_no_say() -> None:
    """A constant scorer gets what the product's final order gives, and no more."""
    values = {ranking_measure("RR@10", order, {"c": 1}) for order in (["a", "b", "c"],)}
    assert values == {1 / 3}


def test_spans() -> None:
    answers = [ChunkSpan("a", 10, 20), ChunkSpan("a", 90, 95)]
    beside = [ChunkSpan("a", 0, 10), ChunkSpan("a", 20, 90), ChunkSpan("b", 0, 99)]
    assert evidence_measures(beside, {"a": 1}, answers, 2)["SpanHit@5"] == 0.0
    one = evidence_measures([*beside, ChunkSpan("a", 19, 21)], {"a": 1}, answers, 2)
    assert (one["SpanHit@5"], one["SpanRecall@5"], one["MultiChunk@5"]) == (1.0, 0.5, 0.0)
    both = [ChunkSpan("a", 5, 12), ChunkSpan("a", 80, 99)]
    assert evidence_measures(both, {"a": 1}, answers, 2)["MultiChunk@5"] == 1.0
    assert "MultiChunk@5" not in evidence_measures(both, {"a": 1}, answers, 1)


def test_only_the_first_five_count_as_returned() -> None:
    returned = [ChunkSpan(f"x{n}", 0, 1) for n in range(5)] + [ChunkSpan("a", 0, 9)]
    assert evidence_measures(returned, {"a": 1}, [ChunkSpan("a", 1, 2)], 1)["SpanHit@5"] == 0.0


def test_abstention() -> None:
    assert abstention([True], [True]) == {"AbstentionPrecision": 1.0, "AbstentionRecall": 1.0}
    assert abstention([True, True, False, False], [True, False, True, False]) == {
        "AbstentionPrecision": 0.5,
        "AbstentionRecall": 0.5,
    }
    assert abstention([False], [False]) == {"AbstentionPrecision": None, "AbstentionRecall": None}


def test_names() -> None:
    assert is_ranking_measure("nDCG@7")
    assert not is_ranking_measure("AP@10")
    with pytest.raises(KeyError):
        ranking_measure("AP@10", ["a"], {"a": 1})
