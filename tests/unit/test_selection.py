"""core/selection.py: what is kept of what was found, and why the rest is not."""

import itertools
from dataclasses import replace

import pytest

from candidates import candidate, hit
from knowport.core.selection import identify, select
from knowport.model import (
    Assessment,
    Attempt,
    AttemptName,
    DropReason,
    HitReason,
    RelevanceLevel,
)

FILTERED, UNFILTERED = AttemptName.FILTERED, AttemptName.UNFILTERED


def chosen(candidates, *, max_per_document=2, return_n=5, **options):
    return select(candidates, max_per_document=max_per_document, return_n=return_n, **options)


def keys(selection):
    return [kept.key for kept in selection.kept]


def drops(selection):
    return [(drop.key, drop.rank, drop.reason) for drop in selection.drops]


def in_order(*chunks):
    """Candidates ranked from 1, each given as (doc_id, chunk_index)."""
    return [candidate(rank, *chunk) for rank, chunk in enumerate(chunks, start=1)]


# -- identify -------------------------------------------------------------------------------


def test_hits_become_candidates_with_their_key_and_rank():
    hits = (hit("a", 4), hit("", None, vector_id="v7"), hit("", None), hit("a", 4))

    levels = [Assessment(level, 0.9, 0.5) for level in RelevanceLevel]
    found = identify(Attempt(FILTERED, "hybrid", "ops", hits, tuple(levels)))

    assert [(c.key, c.rank) for c in found] == [
        ("a#chunk-4", 1),
        ("vector:v7", 2),
        ("rank:3", 3),
        ("a#chunk-4", 4),
    ]
    assert [c.hit for c in found] == list(hits)
    assert [c.assessment for c in found] == levels
    assert [c.reasons for c in found] == [(HitReason(FILTERED, rank),) for rank in (1, 2, 3, 4)]


def test_nothing_found_is_nothing_to_select():
    assert identify(Attempt(UNFILTERED, "dense", None, ())) == ()
    assert chosen([]).kept == chosen([]).drops == ()


# -- order and duplicates -------------------------------------------------------------------


def test_candidates_are_kept_in_order_of_rank():
    ranked = in_order(("a", 0), ("b", 0), ("c", 0))

    assert keys(chosen(list(reversed(ranked)))) == ["a#chunk-0", "b#chunk-0", "c#chunk-0"]


def test_equal_ranks_are_ordered_by_key():
    tied = [candidate(1, "b"), candidate(1, "a"), candidate(1, "c")]

    for order in itertools.permutations(tied):
        assert keys(chosen(order)) == ["a#chunk-0", "b#chunk-0", "c#chunk-0"]


def test_a_duplicate_gives_its_reasons_to_the_better_ranked_and_keeps_that_ones_content():
    better = candidate(2, "a", 0, "better", attempt=FILTERED)
    worse = candidate(5, "a", 0, "worse", attempt=UNFILTERED)
    other = candidate(3, "b")

    for order in itertools.permutations([better, worse, other]):
        selection = chosen(order)

        merged = (HitReason(FILTERED, 2), HitReason(UNFILTERED, 5))
        assert selection.kept == (replace(better, reasons=merged), other)
        assert drops(selection) == [("a#chunk-0", 5, DropReason.DUPLICATE)]


@pytest.mark.parametrize(
    ("filtered_rank", "unfiltered_rank", "first"), [(4, 2, UNFILTERED), (2, 4, FILTERED)]
)
def test_of_attempts_that_were_merged_by_rank_the_one_that_found_it_better_comes_first(
    filtered_rank, unfiltered_rank, first
):
    findings = [
        replace(candidate(filtered_rank, "a", 0, "filtered", attempt=FILTERED), rank=1),
        replace(candidate(unfiltered_rank, "a", 0, "unfiltered"), rank=1),
    ]
    ranks = {FILTERED: filtered_rank, UNFILTERED: unfiltered_rank}
    second = UNFILTERED if first is FILTERED else FILTERED

    for order in (findings, findings[::-1]):
        (kept,) = chosen(order).kept

        assert kept.hit.content == first
        assert kept.reasons == (HitReason(first, ranks[first]), HitReason(second, ranks[second]))


def test_where_both_attempts_found_it_at_one_rank_the_filtered_comes_first():
    findings = [candidate(1, "a"), candidate(1, "a", attempt=FILTERED)]

    (kept,) = chosen(findings).kept

    assert kept.reasons == (HitReason(FILTERED, 1), HitReason(UNFILTERED, 1))


def test_a_reason_that_is_known_is_not_repeated():
    first, again = candidate(1, "a"), candidate(2, "a")
    again = replace(again, reasons=(*first.reasons, *again.reasons))

    assert chosen([first, again]).kept[0].reasons == again.reasons


def test_a_duplicate_of_what_was_dropped_does_not_come_back():
    ranked = in_order(("a", 0), ("a", 1), ("a", 1))

    selection = chosen(ranked, max_per_document=1)

    assert keys(selection) == ["a#chunk-0"]
    assert drops(selection) == [
        ("a#chunk-1", 2, DropReason.OVER_CAP),
        ("a#chunk-1", 3, DropReason.DUPLICATE),
    ]


def test_two_chunks_of_one_document_are_both_kept_even_with_the_same_text():
    boilerplate = "Before you begin, read the safety notes. " * 6
    pair = [candidate(1, "a", 0, boilerplate), candidate(2, "a", 1, boilerplate)]

    selection = chosen(pair)

    assert keys(selection) == ["a#chunk-0", "a#chunk-1"]
    assert drops(selection) == []


def test_the_source_is_no_key():
    pair = [candidate(1, "a", source="handbook"), candidate(2, "b", source="handbook")]

    assert keys(chosen(pair)) == ["a#chunk-0", "b#chunk-0"]


# -- the cap of a document ------------------------------------------------------------------


def test_what_is_not_relevant_uses_up_no_room_of_its_document():
    ranked = in_order(("a", 0), ("a", 1), ("a", 2), ("a", 3))

    selection = chosen(
        ranked,
        max_per_document=2,
        return_n=5,
        is_relevant=lambda c: c.hit.chunk_index >= 2,
    )

    assert keys(selection) == ["a#chunk-2", "a#chunk-3"]
    assert {reason for *_, reason in drops(selection)} == {DropReason.BELOW_THRESHOLD}


def test_a_later_candidate_takes_the_place_of_one_over_the_cap():
    ranked = in_order(("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0), ("c", 0), ("b", 1))

    selection = chosen(ranked, max_per_document=2, return_n=4)

    assert keys(selection) == ["a#chunk-0", "a#chunk-1", "b#chunk-0", "c#chunk-0"]
    assert drops(selection) == [
        ("a#chunk-2", 3, DropReason.OVER_CAP),
        ("a#chunk-3", 4, DropReason.OVER_CAP),
        ("b#chunk-1", 7, DropReason.BEYOND_RETURN_N),
    ]


def test_a_duplicate_takes_no_place_of_its_document():
    ranked = in_order(("a", 0), ("a", 0), ("a", 1))

    assert keys(chosen(ranked)) == ["a#chunk-0", "a#chunk-1"]


def test_a_candidate_without_a_document_is_its_own():
    rows = [candidate(rank, "", None, vector_id=f"v{rank}") for rank in (1, 2, 3)]
    nameless = [candidate(rank, "", None) for rank in (4, 5)]

    selection = chosen(rows + nameless, max_per_document=1)

    assert keys(selection) == ["vector:v1", "vector:v2", "vector:v3", "rank:4", "rank:5"]


def test_a_row_of_a_document_without_a_chunk_number_counts_for_it():
    rows = [candidate(1, "a", 0), candidate(2, "a", None, vector_id="v2"), candidate(3, "a", 1)]

    assert keys(chosen(rows, max_per_document=2)) == ["a#chunk-0", "vector:v2"]


# -- relevance and return_n -----------------------------------------------------------------


def test_what_is_not_relevant_leaves_its_place_to_a_later_one():
    ranked = in_order(("a", 0), ("b", 0), ("c", 0), ("d", 0))

    selection = chosen(ranked, return_n=2, is_relevant=lambda c: c.key != "a#chunk-0")

    assert keys(selection) == ["b#chunk-0", "c#chunk-0"]
    assert drops(selection) == [
        ("a#chunk-0", 1, DropReason.BELOW_THRESHOLD),
        ("d#chunk-0", 4, DropReason.BEYOND_RETURN_N),
    ]


def test_nothing_relevant_is_nothing_kept():
    selection = chosen(in_order(("a", 0), ("b", 0)), is_relevant=lambda _: False)

    assert selection.kept == ()
    assert {drop.reason for drop in selection.drops} == {DropReason.BELOW_THRESHOLD}


@pytest.mark.parametrize("return_n", [1, 3, 5, 9])
def test_at_most_return_n_are_kept(return_n):
    ranked = in_order(*((name, 0) for name in "abcdef"))

    selection = chosen(ranked, return_n=return_n)

    assert keys(selection) == [c.key for c in ranked[:return_n]]
    assert [d.reason for d in selection.drops] == [DropReason.BEYOND_RETURN_N] * max(
        0, 6 - return_n
    )


def test_each_drop_has_its_reason_in_order_of_rank():
    ranked = in_order(
        ("far", 0), ("a", 0), ("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("far", 1)
    )

    selection = chosen(
        ranked, max_per_document=1, return_n=2, is_relevant=lambda c: c.hit.doc_id != "far"
    )

    assert keys(selection) == ["a#chunk-0", "b#chunk-0"]
    assert [(rank, reason) for _, rank, reason in drops(selection)] == [
        (1, DropReason.BELOW_THRESHOLD),
        (3, DropReason.DUPLICATE),
        (4, DropReason.OVER_CAP),
        (5, DropReason.OVER_CAP),
        (7, DropReason.BEYOND_RETURN_N),
        (8, DropReason.BELOW_THRESHOLD),
    ]
