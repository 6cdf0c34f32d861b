"""core/projection.py: exactly what an agent sees of a lookup."""

import json
from dataclasses import asdict, replace

import pytest

from candidates import block
from knowport.core.packing import pack
from knowport.core.projection import project
from knowport.model import (
    Assessment,
    Attempt,
    AttemptName,
    Drop,
    DropReason,
    HitReason,
    LookupResult,
    Notice,
    QueryPlan,
    RelevanceLevel,
    Timing,
)

PLAN = QueryPlan("q", "q", lexical=True, kb_scope="default", category=None, mode="hybrid")


def result(blocks=(), *, drops=(), notices=(), max_chars=10_000):
    packing = pack(list(blocks), max_chars=max_chars)
    hits = tuple(b.candidate.hit for b in blocks)
    return LookupResult(
        lookup_id="lk_1",
        generation="g1",
        plan=PLAN,
        attempts=(Attempt(AttemptName.UNFILTERED, "hybrid", None, hits),),
        selected_attempt=AttemptName.UNFILTERED,
        candidates=tuple(b.candidate for b in blocks),
        found=bool(packing.evidence),
        level=RelevanceLevel.MEDIUM if packing.evidence else RelevanceLevel.NONE,
        calibrated=False,
        evidence=packing.evidence,
        drops=(*drops, *packing.drops),
        notices=tuple(notices),
        timings=(Timing("search", 0.25),),
    )


def test_an_answer_has_these_fields_in_this_order():
    one = block(
        1,
        "Free the disk.",
        level=RelevanceLevel.MEDIUM,
        title="Disk",
        breadcrumb="Ops > Disk",
        source="ops",
        category="linux",
        metadata={"owner": "sre"},
        attempt=AttemptName.FILTERED,
    )

    answer = project(
        result([one], drops=[Drop("x", 2, DropReason.OVER_CAP)], notices=[Notice("code", "Text.")])
    )

    assert json.dumps(asdict(answer), indent=2) == json.dumps(
        {
            "found": True,
            "relevance_level": "medium",
            "lookup_id": "lk_1",
            "generation": "g1",
            "evidence": [
                {
                    "document_id": "d#chunk-1",
                    "source": "ops",
                    "title": "Disk",
                    "breadcrumb": "Ops > Disk",
                    "excerpt": "Free the disk.",
                    "truncated": False,
                    "relevance_level": "medium",
                    "via": "filtered",
                }
            ],
            "withheld": {"over_cap": 1},
            "notices": [{"code": "code", "message": "Text."}],
        },
        indent=2,
    )


def test_nothing_found_has_the_same_fields():
    answer = project(result(notices=[Notice("empty_index", "Nothing.")]))

    assert json.loads(json.dumps(asdict(answer))) == {
        "found": False,
        "relevance_level": "none",
        "lookup_id": "lk_1",
        "generation": "g1",
        "evidence": [],
        "withheld": {},
        "notices": [{"code": "empty_index", "message": "Nothing."}],
    }


def test_ids_are_distinct_and_each_is_the_key_of_its_excerpt():
    same_document = [block(rank, f"Text {rank}.") for rank in (1, 2, 3)]

    answer = project(result(same_document))

    assert [(e.document_id, e.excerpt) for e in answer.evidence] == [
        ("d#chunk-1", "Text 1."),
        ("d#chunk-2", "Text 2."),
        ("d#chunk-3", "Text 3."),
    ]


def test_the_excerpt_is_what_was_packed():
    long = block(1, "Check the disk. " * 100)

    (evidence,) = project(result([long], max_chars=200)).evidence

    assert evidence.truncated
    assert evidence.excerpt.endswith("disk. […]")
    assert len(evidence.excerpt) <= 200


def test_each_piece_has_the_level_of_its_own():
    pair = [block(1, "a", level=RelevanceLevel.HIGH), block(2, "b", level=RelevanceLevel.LOW)]

    assert [e.relevance_level for e in project(result(pair)).evidence] == ["high", "low"]


def test_no_score_leaves():
    one = block(1, "Text.", dense=0.8765, metadata={"rank": 1})
    judged = replace(one.candidate, assessment=Assessment(RelevanceLevel.HIGH, 0.9876, 0.5432))

    written = json.dumps(asdict(project(result([replace(one, candidate=judged)]))))

    # 0.03 and 4.2 are the fused and the BM25 score of every hit of these tests
    for number in ("0.8765", "0.9876", "0.5432", "0.03", "4.2", "0.25"):
        assert number not in written
    for name in ("score", "dense", "sparse", "fused", "rank", "coverage", "assessment"):
        assert name not in written


@pytest.mark.parametrize("first", list(AttemptName))
def test_via_is_the_attempt_that_found_it_first(first):
    one = block(1, "Text.", attempt=first)
    second = HitReason(AttemptName.UNFILTERED, 7)
    one = replace(one, candidate=replace(one.candidate, reasons=(*one.candidate.reasons, second)))

    assert project(result([one])).evidence[0].via is first


def test_what_is_withheld_is_counted_by_reason_without_duplicates():
    reasons = [
        DropReason.OVER_CAP,
        DropReason.DUPLICATE,
        DropReason.BEYOND_RETURN_N,
        DropReason.BELOW_THRESHOLD,
        DropReason.OVER_CAP,
        DropReason.DUPLICATE,
    ]
    drops = [Drop(f"x#chunk-{rank}", rank, reason) for rank, reason in enumerate(reasons)]
    too_long = block(9, "x" * 500, breadcrumb="T" * 300)

    withheld = project(result([too_long], drops=drops, max_chars=200)).withheld

    assert list(withheld.items()) == [
        ("below_threshold", 1),
        ("beyond_return_n", 1),
        ("out_of_budget", 1),
        ("over_cap", 2),
    ]
