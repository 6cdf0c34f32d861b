"""Whatever was found: the cap holds, nothing vanishes, and selecting again changes nothing."""

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from candidates import candidate
from knowport.core.selection import select
from knowport.model import AttemptName, DropReason

chunks = st.tuples(
    st.sampled_from(["a", "b", "c", "d", "", "vector:x"]),
    st.none() | st.integers(0, 4),
    st.sampled_from(["", "x", "y"]),
    st.sampled_from(AttemptName),
    st.booleans(),
)
found = st.lists(chunks, max_size=30).map(
    lambda rows: [
        candidate(
            rank, doc, index, f"text {rank}", vector_id=name, attempt=attempt, dense=float(near)
        )
        for rank, (doc, index, name, attempt, near) in enumerate(rows, start=1)
    ]
)


def merged(candidates):
    """As of two attempts that were merged: what has one key has one rank."""
    ranks = {c.key: c.rank for c in reversed(candidates)}
    return [replace(c, rank=ranks[c.key]) for c in candidates]


limits = st.fixed_dictionaries(
    {"max_per_document": st.integers(1, 4), "return_n": st.integers(1, 12)}
)


def near(candidate):
    return candidate.hit.scores.dense == 1.0


def document(candidate):
    return candidate.hit.doc_id or candidate.key


@given(found | found.map(merged), limits)
def test_limits_hold_and_keys_are_distinct(candidates, limits):
    kept = select(candidates, **limits, is_relevant=near).kept

    assert len(kept) <= limits["return_n"]
    assert len({c.key for c in kept}) == len(kept)
    assert max(Counter(map(document, kept)).values(), default=0) <= limits["max_per_document"]
    assert all(map(near, kept))


@given(found | found.map(merged), limits)
def test_every_candidate_is_kept_or_dropped_for_one_reason(candidates, limits):
    selection = select(candidates, **limits, is_relevant=near)

    accounted = [(c.rank, c.key) for c in selection.kept]
    accounted += [(d.rank, d.key) for d in selection.drops]
    assert sorted(accounted) == sorted((c.rank, c.key) for c in candidates)
    ranks = [c.rank for c in selection.kept], [d.rank for d in selection.drops]
    assert all(several == sorted(several) for several in ranks)


@given(found, limits)
def test_no_chunk_is_dropped_without_cause(candidates, limits):
    selection = select(candidates, **limits, is_relevant=near)

    by_rank = {c.rank: c for c in candidates}
    before = {c.key for c in selection.kept}
    for drop in selection.drops:
        dropped = by_rank[drop.rank]
        match drop.reason:
            case DropReason.DUPLICATE:
                assert any(c.key == drop.key for c in candidates if c.rank < drop.rank)
            case DropReason.OVER_CAP:
                ahead = {
                    c.key
                    for c in candidates
                    if c.rank < drop.rank and document(c) == document(dropped)
                }
                assert len(ahead - {drop.key}) >= limits["max_per_document"]
            case DropReason.BELOW_THRESHOLD:
                assert not near(dropped)
            case DropReason.BEYOND_RETURN_N:
                assert all(c.rank < drop.rank for c in selection.kept)
                assert len(before) == limits["return_n"]


@given(found, limits)
def test_something_is_kept_where_one_of_the_first_is_relevant_and_nothing_else(candidates, limits):
    first: dict[str, bool] = {}
    for found_one in sorted(candidates, key=lambda c: c.rank):
        first.setdefault(found_one.key, near(found_one))
    relevant = any(list(first.values())[: limits["return_n"]])

    kept = select(candidates, **limits, is_relevant=near, first_decide=True).kept
    assert bool(kept) == relevant


@given(found, limits)
def test_selecting_again_changes_nothing(candidates, limits):
    kept = select(candidates, **limits, is_relevant=near).kept

    again = select(kept, **limits, is_relevant=near)

    assert again.kept == kept
    assert again.drops == ()


@given(found | found.map(merged), limits, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(candidates, limits, chance: random.Random):
    shuffled = list(candidates)
    chance.shuffle(shuffled)

    assert select(shuffled, **limits, is_relevant=near) == select(
        candidates, **limits, is_relevant=near
    )


@given(found, limits)
def test_a_kept_one_has_its_own_content_and_the_reasons_of_its_duplicates(candidates, limits):
    for kept in select(candidates, **limits).kept:
        same = [c for c in candidates if c.key == kept.key]
        assert kept.hit == same[0].hit
        assert kept.reasons == tuple(reason for c in same for reason in c.reasons)
