"""pipelines/search.py and lookup.py over fakes: fusion, attempts, fallback, failures, filters."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from fakes import SCALE, FakeEmbedder, FakeIndex, FakeLedger, Row, engine_error
from knowport.core.domains import NO_DOMAINS, parse_catalogue
from knowport.core.projection import project
from knowport.core.relevance import Thresholds
from knowport.errors import (
    ConfigurationError,
    EmbeddingError,
    EmbeddingUnavailable,
    EngineError,
    EngineUnavailable,
    InvalidInput,
)
from knowport.model import AttemptName, DropReason, HitReason, LegWeights, RelevanceLevel
from knowport.pipelines.lookup import LookupOptions, LookupPorts, lookup
from knowport.pipelines.search import SearchOptions

FILTERED, UNFILTERED = AttemptName.FILTERED, AttemptName.UNFILTERED
HIGH, MEDIUM, LOW, NONE = (
    RelevanceLevel.HIGH,
    RelevanceLevel.MEDIUM,
    RelevanceLevel.LOW,
    RelevanceLevel.NONE,
)
CATALOGUE = parse_catalogue(
    """
[[domain]]
id = "mysql"
names = ["MySQL"]
keywords = ["replication"]

[[domain]]
id = "redis"
names = ["Redis"]
keywords = ["replication"]
"""
)


def ports(index, embedder=None, *, catalogue=CATALOGUE, thresholds=SCALE):
    return LookupPorts(
        embedder=embedder or FakeEmbedder(),
        ledger=FakeLedger(index.rows if index else ()),
        index=index,
        generation="g1",
        thresholds=thresholds,
        catalogue=catalogue,
    )


def looked_up(query, index, embedder=None, *, options=None, search=None, asked=None, **more):
    """A lookup of ``query``; ``asked`` are the caller's filters and mode."""
    options = options or LookupOptions(search=search or SearchOptions())
    return lookup(
        query, ports(index, embedder, **more), options, **{"kb_scope": "default"} | (asked or {})
    )


def ids(hits):
    return [hit.id for hit in hits]


def keys(result):
    return [item.block.candidate.key for item in result.evidence]


def codes(result):
    return [notice.code for notice in result.notices]


def attempts(result):
    return [(attempt.name, attempt.category, attempt.low_quality) for attempt in result.attempts]


# -- adaptive fusion --------------------------------------------------------------------------


def test_both_legs_are_asked_once_and_fused_with_the_weights_that_are_recorded() -> None:
    index = FakeIndex(
        [
            Row("a", content="lock timeout", cosine=0.6, bm25=9),
            Row("b", content="nothing", cosine=0.9),
            Row("c", content="lock", cosine=0.7, bm25=5),
        ]
    )

    result = looked_up("lock timeout", index, search=SearchOptions(retrieve_k=7))

    assert index.modes == [("dense", None), ("sparse", None)]
    assert {request.retrieve_k for request in index.asked} == {7}
    assert {request.query for request in index.asked} == {"lock timeout"}
    (attempt,) = result.attempts
    assert attempt.weights == LegWeights(1.0, 1.0, "lexical_covers_query")
    assert (attempt.name, attempt.mode, attempt.failed_leg) == (UNFILTERED, "hybrid", "")
    assert [(hit.id, hit.scores.fused) for hit in attempt.hits] == [
        ("a#chunk-0", 1 / 63 + 1 / 61),
        ("c#chunk-0", 1 / 62 + 1 / 62),
        ("b#chunk-0", 1 / 61),
    ]
    first = attempt.hits[0].scores
    assert (first.dense, first.dense_rank, first.sparse, first.sparse_rank) == (0.6, 3, 9, 1)
    assert codes(result) == []


def test_the_legs_are_searched_at_once() -> None:
    """The lexical leg is under way while the dense one is waited for."""
    events = []

    class Index(FakeIndex):
        def begin_search(self, request):
            events.append(f"begin {request.mode}")
            return super().begin_search(request)

        def search(self, request):
            events.append(f"wait for {request.mode}")
            return super().search(request)

    looked_up("lock", Index([Row("a", content="lock", bm25=1)]))

    assert events == ["begin sparse", "wait for dense", "wait for sparse"]


def test_a_lexical_leg_that_covers_little_counts_little() -> None:
    """Of two candidates one holds one of four words, and none holds the others."""
    index = FakeIndex(
        [
            Row("a", content="pods are fine", cosine=0.6, bm25=9),
            Row("b", content="容器反复重启", cosine=0.9),
        ]
    )
    held, absent = math.log(1 + 1.5 / 1.5), math.log(1 + 2.5 / 0.5)
    narrow = SearchOptions(retrieve_k=1)

    (attempt,) = looked_up("pods crash looping again", index, search=narrow).attempts

    assert attempt.weights.reason == "lexical_covers_little"
    assert attempt.weights.dense == 1.0
    coverage = held / (held + 3 * absent)
    assert attempt.weights.sparse == pytest.approx((coverage / 0.4) ** 2)
    assert ids(attempt.hits) == ["b#chunk-0", "a#chunk-0"]
    assert [hit.scores.fused for hit in attempt.hits] == [1 / 61, attempt.weights.sparse / 61]


@pytest.mark.parametrize(
    ("query", "content", "weights", "first"),
    [
        ("ERROR 1205", "error 1205 means", LegWeights(0.5, 1.0, "identifiers_only"), "a"),
        ("exit code 137", "exit code 137", LegWeights(1.0, 1.0, "lexical_covers_query"), "a"),
        ("ERROR 1205", "sees 12050 errors", LegWeights(1.0, 0.0, "lexical_covers_nothing"), "b"),
    ],
)
def test_the_reason_of_the_weights_is_recorded(query, content, weights, first) -> None:
    index = FakeIndex([Row("a", content=content, cosine=0.6, bm25=9), Row("b", cosine=0.9)])

    (attempt,) = looked_up(query, index).attempts

    assert attempt.weights == weights
    assert attempt.hits[0].id == f"{first}#chunk-0"


def test_a_lexical_leg_that_finds_nothing_has_no_say() -> None:
    index = FakeIndex([Row("a", cosine=0.6), Row("b", cosine=0.9)])

    (attempt,) = looked_up("zookeeper quorum", index).attempts

    assert attempt.weights == LegWeights(1.0, 0.0, "lexical_covers_nothing")
    assert ids(attempt.hits) == ["b#chunk-0", "a#chunk-0"]


def test_ties_go_to_the_hit_with_more_terms_in_its_headings_then_to_the_lower_id() -> None:
    """Ranks 1 and 2 in one leg and 2 and 1 in the other, twice over."""
    rows = [
        Row("a", content="lock wait", cosine=0.9, bm25=8, title="Timeouts"),
        Row("b", content="lock wait", cosine=0.8, bm25=9, title="Lock", breadcrumb="Lock > Wait"),
        Row("d", content="lock wait", cosine=0.7, bm25=6),
        Row("c", content="lock wait", cosine=0.6, bm25=7),
    ]

    (attempt,) = looked_up("lock wait", FakeIndex(rows)).attempts

    assert ids(attempt.hits) == ["b#chunk-0", "a#chunk-0", "c#chunk-0", "d#chunk-0"]
    tied = [hit.scores.fused for hit in attempt.hits]
    assert tied == [1 / 61 + 1 / 62] * 2 + [1 / 63 + 1 / 64] * 2


def test_headings_do_not_lift_a_hit_over_a_better_one() -> None:
    rows = [
        Row("a", content="lock wait", cosine=0.9, bm25=9),
        Row("b", content="lock wait", cosine=0.8, bm25=8, title="lock wait lock wait"),
    ]

    (attempt,) = looked_up("lock wait", FakeIndex(rows)).attempts

    assert ids(attempt.hits) == ["a#chunk-0", "b#chunk-0"]


@pytest.mark.parametrize("ranker", ["rrf", "weighted"])
def test_other_rankers_go_to_the_engine_in_one_call(ranker) -> None:
    index = FakeIndex([Row("a", content="lock", cosine=0.6, bm25=9), Row("b", cosine=0.9)])
    search = SearchOptions(
        retrieve_k=9, ranker=ranker, rrf_k=17, weight_dense=0.25, weight_sparse=0.75
    )

    (attempt,) = looked_up("lock", index, search=search).attempts

    (asked,) = index.asked
    assert (asked.mode, asked.ranker, asked.rrf_k, asked.retrieve_k) == ("hybrid", ranker, 17, 9)
    assert (asked.weight_dense, asked.weight_sparse) == (0.25, 0.75)
    assert attempt.weights is None
    assert attempt.mode == "hybrid"
    assert attempt.hits[0].scores.fused == 1 / 18 + 1 / 19
    assert [a.coverage for a in attempt.assessments] == [1.0, 0.0]


def test_dense_mode_asks_one_leg() -> None:
    index = FakeIndex([Row("a", content="lock", cosine=0.6, bm25=9), Row("b", cosine=0.9)])

    (attempt,) = looked_up("lock", index, asked={"mode": "dense"}).attempts

    assert index.modes == [("dense", None)]
    assert (attempt.mode, attempt.weights) == ("dense", None)
    assert ids(attempt.hits) == ["b#chunk-0", "a#chunk-0"]


def test_a_fused_score_never_decides_a_level() -> None:
    rows = [
        Row("near", content="lock wait", cosine=0.95, bm25=1),
        Row("fair", content="wait", cosine=0.75, bm25=9),
        Row("poor", content="lock", cosine=0.5, bm25=8),
        Row("far", content="lock wait", cosine=0.49, bm25=7),
    ]
    expected = {"near": HIGH, "fair": MEDIUM, "poor": LOW, "far": NONE}
    fused = set()

    for ranker in ("adaptive", "rrf"):
        for k in (1, 60, 1_000):
            index = FakeIndex(rows)
            (attempt,) = looked_up(
                "lock wait", index, search=SearchOptions(ranker=ranker, rrf_k=k)
            ).attempts
            levels = {
                hit.doc_id: assessment.level
                for hit, assessment in zip(attempt.hits, attempt.assessments, strict=True)
            }
            fused.add(attempt.hits[0].scores.fused)
            assert levels == expected
    assert len(fused) >= 3


def test_coverage_and_language_enter_the_level() -> None:
    scale = Thresholds(0.5, 0.7, 0.9, lexical_weight=0.25, language_offset=0.125)
    rows = [
        Row("han", content="锁等待超时", cosine=0.5),
        Row("words", content="lock wait", cosine=0.5, bm25=3),
        Row("plain", content="something else", cosine=0.5),
    ]

    (attempt,) = looked_up("lock wait", FakeIndex(rows), thresholds=scale).attempts
    scores = {
        hit.doc_id: (assessment.score, assessment.level)
        for hit, assessment in zip(attempt.hits, attempt.assessments, strict=True)
    }

    assert scores == {
        "han": (0.625, LOW),
        "words": (0.75, MEDIUM),
        "plain": (0.5, LOW),
    }


def test_an_identifier_belongs_to_no_language() -> None:
    scale = Thresholds(0.5, 0.7, 0.9, language_offset=0.25)
    rows = [Row("han", content="锁等待超时 1205", cosine=0.5, bm25=3)]

    bare = looked_up("ORA-1205", FakeIndex(rows), thresholds=scale).attempts[0]
    worded = looked_up("ORA-1205 timeout", FakeIndex(rows), thresholds=scale).attempts[0]

    assert bare.assessments[0].score == 0.5
    assert worded.assessments[0].score == 0.75


# -- attempts ---------------------------------------------------------------------------------

GOOD_MYSQL = Row("my", content="mysql lock wait", cosine=0.95, bm25=9, category="mysql")
FAIR_MYSQL = replace(GOOD_MYSQL, cosine=0.75)
GOOD_REDIS = Row("re", content="lock in a cache", cosine=0.92, bm25=5, category="redis")


def test_one_domain_filters_and_a_good_result_stays() -> None:
    index, embedder = FakeIndex([GOOD_MYSQL, GOOD_REDIS]), FakeEmbedder()

    result = looked_up("MySQL lock wait", index, embedder)

    assert attempts(result) == [(FILTERED, "mysql", "")]
    assert result.selected_attempt is FILTERED
    assert keys(result) == ["my#chunk-0"]
    assert [e.via for e in project(result).evidence] == [FILTERED]
    assert index.modes == [("dense", "mysql"), ("sparse", "mysql")]
    assert embedder.queries == ["MySQL lock wait"]


def test_low_quality_under_a_guessed_filter_is_searched_again_without() -> None:
    index, embedder = FakeIndex([FAIR_MYSQL, GOOD_REDIS]), FakeEmbedder()

    result = looked_up("MySQL lock wait", index, embedder)

    assert attempts(result) == [
        (FILTERED, "mysql", "best_evidence_is_medium"),
        (UNFILTERED, None, ""),
    ]
    assert [attempt.level for attempt in result.attempts] == [MEDIUM, HIGH]
    assert result.selected_attempt is UNFILTERED
    assert set(keys(result)) == {"my#chunk-0", "re#chunk-0"}
    assert {e.via for e in project(result).evidence} == {UNFILTERED}
    assert {c.reasons[0].attempt for c in result.candidates} == {UNFILTERED}
    assert [category for _, category in index.modes] == ["mysql", "mysql", None, None]
    assert embedder.queries == ["MySQL lock wait"], "one embedding serves all attempts"
    assert [attempt.weights is not None for attempt in result.attempts] == [True, True]


@pytest.mark.parametrize(
    ("options", "level"),
    [
        (LookupOptions(return_n=1), MEDIUM),  # the better one is beyond return_n
        (LookupOptions(max_chunks_per_document=1), MEDIUM),  # over the cap
        (LookupOptions(), HIGH),
    ],
)
def test_an_attempt_is_as_good_as_what_it_would_return(options, level) -> None:
    """Its best hit is second, and of no use where it would not be returned."""
    rows = [
        replace(FAIR_MYSQL, cosine=0.85),
        Row("my", 1, content="other words", cosine=0.92, category="mysql"),
        Row("re", content="mysql lock wait", cosine=0.99, bm25=9, category="redis"),
    ]

    first, *more = looked_up("MySQL lock wait", FakeIndex(rows), options=options).attempts

    assert ids(first.hits) == ["my#chunk-0", "my#chunk-1"]
    assert first.level is level
    assert bool(more) == (level is not HIGH)


def test_a_filter_that_finds_nothing_is_searched_again_without() -> None:
    result = looked_up("MySQL lock wait", FakeIndex([GOOD_REDIS]))

    assert attempts(result) == [(FILTERED, "mysql", "nothing_found"), (UNFILTERED, None, "")]
    assert keys(result) == ["re#chunk-0"]


@pytest.mark.parametrize("rows", [[FAIR_MYSQL, GOOD_REDIS], [GOOD_REDIS]])
def test_the_second_search_can_be_switched_off(rows) -> None:
    options = LookupOptions(retry_unfiltered_on_low_quality=False)

    result = looked_up("MySQL lock wait", FakeIndex(rows), options=options)

    assert [attempt.name for attempt in result.attempts] == [FILTERED]
    assert result.attempts[0].low_quality
    assert result.selected_attempt is FILTERED
    assert set(keys(result)) <= {"my#chunk-0"}


def test_an_empty_answer_always_says_why() -> None:
    options = LookupOptions(retry_unfiltered_on_low_quality=False)

    result = looked_up("MySQL lock wait", FakeIndex([GOOD_REDIS]), options=options)

    assert (result.found, codes(result)) == (False, ["nothing_found"])
    assert result.notices[0].message == (
        "Nothing was found in category 'mysql'. The query names it; no other was searched."
    )


@pytest.mark.parametrize(
    ("query", "domains"),
    [
        ("lock wait", ()),
        ("MySQL and Redis lock", ("mysql", "redis")),
        ("replication lock", ("mysql", "redis")),  # a keyword of two domains
        ("processes of mysqlx lock", ()),
    ],
)
def test_no_domain_or_several_filter_nothing(query, domains) -> None:
    index = FakeIndex([GOOD_MYSQL, GOOD_REDIS])

    result = looked_up(query, index)

    assert result.plan.domains == domains
    assert result.plan.soft_category is None
    assert [name for name, _, _ in attempts(result)] == [UNFILTERED]
    assert {category for _, category in index.modes} == {None}


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("query", ["MySQL lock wait", "Redis lock", "lock"])
def test_a_category_of_the_caller_is_never_widened(query, parallel) -> None:
    """Not even where it finds little, and the query names another domain."""
    index = FakeIndex([replace(GOOD_MYSQL, cosine=0.2), GOOD_REDIS])
    options = LookupOptions(parallel=parallel)

    result = looked_up(query, index, options=options, asked={"category": "mysql"})

    assert result.plan.soft_category is None
    assert [attempt.name for attempt in result.attempts] == [FILTERED]
    assert {category for _, category in index.modes} == {"mysql"}
    assert {c.hit.category for c in result.candidates} == {"mysql"}
    assert (keys(result), codes(result)) == ([], ["below_threshold"])


def test_without_a_catalogue_there_is_nothing_to_guess() -> None:
    result = looked_up("MySQL lock wait", FakeIndex([GOOD_MYSQL]), catalogue=NO_DOMAINS)

    assert attempts(result) == [(UNFILTERED, None, "")]


def test_hints_never_enter_evidence() -> None:
    """The query names a domain that holds nothing about it, in a catalogue of odd words."""
    catalogue = parse_catalogue('[[domain]]\nid = "zebra"\nnames = ["okapi"]\n')
    index = FakeIndex([Row("a", content="nothing of the kind", cosine=0.6, category="zebra")])

    result = looked_up("okapi", index, catalogue=catalogue)
    shown = json.dumps([item.excerpt for item in project(result).evidence])

    assert result.plan.domains == ("zebra",)
    assert keys(result) == ["a#chunk-0"]
    assert "okapi" not in shown
    assert "zebra" not in shown


# -- both attempts at once --------------------------------------------------------------------

PARALLEL = LookupOptions(parallel=True)


def test_in_parallel_both_attempts_run_and_are_merged_by_key_and_rank() -> None:
    """Ranks in the filtered attempt: a 1, b 2; in the unfiltered: x 1, b 2, a 3."""
    rows = [
        Row("a", content="lock wait", cosine=0.91, bm25=5, category="mysql"),
        Row("b", content="mysql lock", cosine=0.92, bm25=4, category="mysql"),
        Row("x", content="mysql lock wait", cosine=0.95, bm25=9, category="redis"),
    ]
    rows[0] = replace(rows[0], bm25=8, cosine=0.93)
    rows[1] = replace(rows[1], bm25=7, cosine=0.94)
    index, embedder = FakeIndex(rows), FakeEmbedder()

    result = looked_up("MySQL lock wait", index, embedder, options=PARALLEL)

    assert [attempt.name for attempt in result.attempts] == [FILTERED, UNFILTERED]
    assert embedder.queries == ["MySQL lock wait"]
    assert len(index.asked) == 4
    ranks = [{hit.doc_id: n for n, hit in enumerate(a.hits, 1)} for a in result.attempts]
    assert ranks == [{"a": 1, "b": 2}, {"x": 1, "a": 2, "b": 3}]
    reasons = {c.hit.doc_id: c.reasons for c in (i.block.candidate for i in result.evidence)}
    assert reasons == {
        "a": (HitReason(FILTERED, 1), HitReason(UNFILTERED, 2)),
        "b": (HitReason(FILTERED, 2), HitReason(UNFILTERED, 3)),
        "x": (HitReason(UNFILTERED, 1),),
    }
    # 1/61 + 1/62, 1/62 + 1/63 and 1/61
    assert keys(result) == ["a#chunk-0", "b#chunk-0", "x#chunk-0"]
    assert [i.block.candidate.rank for i in result.evidence] == [1, 2, 3]
    assert [(drop.key, drop.reason) for drop in result.drops] == [
        ("a#chunk-0", DropReason.DUPLICATE),
        ("b#chunk-0", DropReason.DUPLICATE),
    ]
    answer = project(result)
    assert answer.withheld == {}
    assert [item.via for item in answer.evidence] == [FILTERED, FILTERED, UNFILTERED]
    assert result.selected_attempt is FILTERED


def test_in_parallel_a_filtered_attempt_of_low_quality_stands_behind_the_other() -> None:
    """The guess was wrong: ranks in the filtered attempt: a 1, b 2; in the unfiltered: x 1, a 2."""
    rows = [
        Row("a", content="mysql lock", cosine=0.8, bm25=5, category="mysql"),
        Row("b", content="mysql", cosine=0.6, category="mysql"),
        Row("x", content="mysql lock wait", cosine=0.95, bm25=9, category="redis"),
    ]
    options = replace(PARALLEL, search=SearchOptions(retrieve_k=2))

    result = looked_up("MySQL lock wait", FakeIndex(rows), options=options)

    assert attempts(result) == [
        (FILTERED, "mysql", "best_evidence_is_medium"),
        (UNFILTERED, None, ""),
    ]
    assert keys(result) == ["x#chunk-0", "a#chunk-0", "b#chunk-0"]
    found = [item.block.candidate for item in result.evidence]
    assert [c.rank for c in found] == [1, 2, 4]
    assert [c.reasons for c in found] == [
        (HitReason(UNFILTERED, 1),),
        (HitReason(UNFILTERED, 2), HitReason(FILTERED, 1)),
        (HitReason(FILTERED, 2),),
    ]
    assert [item.via for item in project(result).evidence] == [UNFILTERED, UNFILTERED, FILTERED]
    assert result.selected_attempt is UNFILTERED


def test_in_parallel_evidence_is_of_the_attempt_that_found_it_at_the_better_rank() -> None:
    """The weights of the legs may differ between the attempts, and with them the order."""
    rows = [
        Row("a", content="mysql lock", cosine=0.95, bm25=8, category="mysql"),
        Row("b", content="lock wait", cosine=0.93, bm25=9, category="mysql"),
        Row("c", content="lock wait", cosine=0.94, category="redis"),
    ]

    result = looked_up("MySQL lock wait", FakeIndex(rows), options=PARALLEL)
    ranks = [{hit.doc_id: n for n, hit in enumerate(a.hits, 1)} for a in result.attempts]

    for item in result.evidence:
        found = item.block.candidate
        best = min(
            (ranks[n][found.hit.doc_id], name)
            for n, name in enumerate((FILTERED, UNFILTERED))
            if found.hit.doc_id in ranks[n]
        )
        assert (found.reasons[0].rank, found.reasons[0].attempt) == best


def test_in_parallel_without_evidence_the_unfiltered_attempt_is_named() -> None:
    rows = [replace(GOOD_MYSQL, cosine=0.1), replace(GOOD_REDIS, cosine=0.1)]

    result = looked_up("MySQL lock", FakeIndex(rows), options=PARALLEL)

    assert (keys(result), result.selected_attempt) == ([], UNFILTERED)


def test_in_parallel_the_switch_that_keeps_a_guessed_filter_still_keeps_it() -> None:
    options = replace(PARALLEL, retry_unfiltered_on_low_quality=False)
    index = FakeIndex([FAIR_MYSQL, GOOD_REDIS])

    result = looked_up("MySQL lock wait", index, options=options)

    assert attempts(result) == [(FILTERED, "mysql", "best_evidence_is_medium")]
    assert result.selected_attempt is FILTERED
    assert keys(result) == ["my#chunk-0"]
    assert {category for _, category in index.modes} == {"mysql"}


def test_in_parallel_one_chunk_has_one_level() -> None:
    """Coverage depends on the candidates, so the two attempts may judge one chunk apart."""
    scale = Thresholds(0.5, 0.7, 0.9, lexical_weight=0.5)
    rows = [
        Row("a", content="mysql lock", cosine=0.5, bm25=9, category="mysql"),
        *(Row(f"r{n}", content="lock", cosine=0.4, bm25=1, category="redis") for n in range(6)),
    ]

    result = looked_up("MySQL lock timeout", FakeIndex(rows), options=PARALLEL, thresholds=scale)
    judged = {a.name: dict(zip(ids(a.hits), a.assessments, strict=True)) for a in result.attempts}

    twice = [c.assessment for c in result.candidates if c.hit.doc_id == "a"]
    assert judged[FILTERED]["a#chunk-0"] != judged[UNFILTERED]["a#chunk-0"]
    assert twice == [judged[UNFILTERED]["a#chunk-0"]] * 2


def test_in_parallel_a_query_without_a_domain_is_one_attempt() -> None:
    index = FakeIndex([GOOD_MYSQL, GOOD_REDIS])

    result = looked_up("lock", index, options=PARALLEL)

    assert attempts(result) == [(UNFILTERED, None, "")]
    assert len(index.asked) == 2


def test_in_parallel_a_failure_of_one_attempt_is_an_error() -> None:
    failing = {(leg, "mysql"): engine_error(leg) for leg in ("dense", "sparse")}
    index = FakeIndex([GOOD_MYSQL, GOOD_REDIS], failing=failing)

    with pytest.raises(EngineError, match="Milvus failed on sparse"):
        looked_up("MySQL lock", index, options=PARALLEL)


# -- degraded ---------------------------------------------------------------------------------

EMBEDDING_FAILURES = [
    EmbeddingError("The endpoint refused.", remedy="Check it."),
    EmbeddingUnavailable("The endpoint is away."),
]


@pytest.mark.parametrize("error", EMBEDDING_FAILURES)
@pytest.mark.parametrize("ranker", ["adaptive", "rrf", "weighted"])
def test_without_an_embedding_the_words_answer(error, ranker) -> None:
    index = FakeIndex(
        [Row("a", content="lock wait", cosine=0.1, bm25=9), Row("b", content="x", cosine=0.9)]
    )

    result = looked_up("lock wait", index, FakeEmbedder(error), search=SearchOptions(ranker=ranker))

    assert index.modes == [("sparse", None)]
    assert index.asked[0].vector is None
    assert (keys(result), result.found, result.level) == (["a#chunk-0"], True, LOW)
    assert codes(result) == ["degraded"]
    assert error.message in result.notices[0].message
    (attempt,) = result.attempts
    assert (attempt.mode, attempt.weights) == ("sparse", None)
    assert project(result).notices == result.notices


@pytest.mark.parametrize("error", EMBEDDING_FAILURES)
def test_in_dense_mode_a_failing_embedder_is_an_error(error) -> None:
    index = FakeIndex([GOOD_MYSQL])

    with pytest.raises(EmbeddingError) as raised:
        looked_up("lock", index, FakeEmbedder(error), asked={"mode": "dense"})

    assert raised.value is error
    assert index.asked == []


@pytest.mark.parametrize("query", ["？！", "的了", "the of and", "🚀"])
def test_a_query_without_words_and_without_an_embedding_is_an_error(query) -> None:
    """An empty answer would say that nothing is known about it."""
    index = FakeIndex([GOOD_MYSQL])

    with pytest.raises(EmbeddingUnavailable):
        looked_up(query, index, FakeEmbedder(EMBEDDING_FAILURES[1]))

    assert index.asked == []


def test_words_that_match_nothing_without_an_embedding_say_so() -> None:
    for asked, message in (
        ({}, "Nothing was found."),
        ({"category": "mysql"}, "Nothing was found in category 'mysql'."),
    ):
        index = FakeIndex([replace(GOOD_MYSQL, bm25=0)])

        result = looked_up("zookeeper", index, FakeEmbedder(EMBEDDING_FAILURES[1]), asked=asked)

        assert (result.found, codes(result)) == (False, ["degraded", "nothing_found"])
        assert result.notices[1].message == message


def test_degraded_still_falls_back_from_a_guessed_filter() -> None:
    index = FakeIndex([GOOD_REDIS])

    result = looked_up("MySQL lock", index, FakeEmbedder(EMBEDDING_FAILURES[1]))

    assert index.modes == [("sparse", "mysql"), ("sparse", None)]
    assert keys(result) == ["re#chunk-0"]
    assert codes(result) == ["degraded"]


@pytest.mark.parametrize(
    ("leg", "found", "mode"), [("dense", ["a"], "sparse"), ("sparse", ["b", "a"], "dense")]
)
def test_where_one_leg_fails_the_other_answers(leg, found, mode) -> None:
    index = FakeIndex(
        [Row("a", content="lock wait", cosine=0.6, bm25=9), Row("b", content="x", cosine=0.9)],
        failing={leg: EngineUnavailable(f"The {leg} node is away.")},
    )

    result = looked_up("lock wait", index)

    (attempt,) = result.attempts
    assert keys(result) == [f"{name}#chunk-0" for name in found]
    assert (attempt.mode, attempt.weights) == (mode, None)
    assert attempt.failed_leg == f"{leg}: The {leg} node is away."
    assert codes(result) == ["degraded"]
    assert f"The {leg} node is away." in result.notices[0].message
    # the cosine of a lexical hit is known, so its level is not a guess
    assert result.level is (LOW if leg == "dense" else HIGH)
    assert [a.score for a in attempt.assessments] == ([0.6] if leg == "dense" else [0.9, 0.6])


def test_one_failed_leg_of_two_attempts_is_said_once() -> None:
    index = FakeIndex([FAIR_MYSQL, GOOD_REDIS], failing={"sparse": engine_error("sparse")})

    result = looked_up("MySQL lock", index)

    assert len(result.attempts) == 2
    assert codes(result) == ["degraded"]


def test_both_legs_failing_is_an_error() -> None:
    index = FakeIndex([GOOD_MYSQL], failing={m: engine_error(m) for m in ("dense", "sparse")})

    with pytest.raises(EngineError):
        looked_up("lock", index)


def test_no_embedding_and_no_lexical_leg_is_an_error() -> None:
    index = FakeIndex([GOOD_MYSQL], failing={"sparse": engine_error("sparse")})

    with pytest.raises(EngineError, match="Milvus failed on sparse"):
        looked_up("lock", index, FakeEmbedder(EMBEDDING_FAILURES[0]))


@pytest.mark.parametrize("ranker", ["rrf", "weighted"])
def test_a_fusion_that_fails_in_the_engine_is_an_error(ranker) -> None:
    index = FakeIndex([GOOD_MYSQL], failing={"hybrid": engine_error("hybrid")})

    with pytest.raises(EngineError, match="hybrid"):
        looked_up("lock", index, search=SearchOptions(ranker=ranker))


@pytest.mark.parametrize(
    "error",
    [InvalidInput("bad", field="category"), ConfigurationError("no BM25 field"), ValueError("x")],
)
@pytest.mark.parametrize("leg", ["dense", "sparse"])
def test_what_is_not_a_failure_of_the_engine_is_never_swallowed(error, leg) -> None:
    index = FakeIndex([GOOD_MYSQL], failing={leg: error})

    with pytest.raises(type(error)) as raised:
        looked_up("lock", index)

    assert raised.value is error


def test_an_embedder_that_refuses_the_input_is_not_swallowed() -> None:
    refused = InvalidInput("bad text", field="query")

    with pytest.raises(InvalidInput):
        looked_up("lock", FakeIndex([GOOD_MYSQL]), FakeEmbedder(refused))


# -- filters and odd queries ------------------------------------------------------------------


@pytest.mark.parametrize("category", ["", "  ", "\u3000", "*", " * ", "null", "NULL", None])
def test_a_category_that_stands_for_none_filters_nothing(category) -> None:
    index = FakeIndex([GOOD_MYSQL, GOOD_REDIS])

    result = looked_up("lock", index, asked={"category": category})

    assert attempts(result) == [(UNFILTERED, None, "")]
    assert set(keys(result)) == {"my#chunk-0", "re#chunk-0"}
    assert codes(result) == []


def test_a_category_that_stands_for_none_leaves_the_guess_to_the_query() -> None:
    result = looked_up("MySQL lock", FakeIndex([GOOD_MYSQL]), asked={"category": "*"})

    assert result.plan.soft_category == "mysql"


@pytest.mark.parametrize(
    ("category", "hint"),
    [
        ("MySQL", "Did you mean: mysql?"),
        ("mysq", "Did you mean: mysql?"),
        ("REDIS", "Did you mean: redis?"),
        ("weather", "Did you mean: mysql, redis?"),
        ('x" or category != "', "Did you mean: mysql, redis?"),
    ],
)
def test_an_unknown_category_finds_nothing_and_names_the_nearest(category, hint) -> None:
    index = FakeIndex([GOOD_MYSQL, GOOD_REDIS])

    result = looked_up("lock", index, asked={"category": category})

    assert (result.found, codes(result)) == (False, ["unknown_category"])
    assert result.notices[0].message == f"No document has the category '{category}'. {hint}"
    assert attempts(result) == [(FILTERED, category, "nothing_found")]


def test_names_that_differ_in_case_alone_are_both_named() -> None:
    rows = [Row("a", category="Ops"), Row("b", category="OPS")]

    result = looked_up("lock", FakeIndex(rows), asked={"category": "ops"})

    assert "Did you mean: OPS, Ops?" in result.notices[0].message


def test_a_category_of_another_scope_is_unknown_here() -> None:
    rows = [GOOD_MYSQL, replace(GOOD_REDIS, kb_scope="other")]

    result = looked_up("lock", FakeIndex(rows), asked={"category": "redis"})

    assert codes(result) == ["unknown_category"]
    assert "redis" not in result.notices[0].message.partition("Did you mean")[2]


def test_where_no_document_has_a_category_the_notice_says_so() -> None:
    result = looked_up("lock", FakeIndex([Row("a")]), asked={"category": "ops"})

    assert result.notices[0].message == (
        "No document has the category 'ops'. No document has a category."
    )


@pytest.mark.parametrize("asked", [{}, {"category": "mysql"}])
@pytest.mark.parametrize(
    "index", [None, FakeIndex([]), FakeIndex([replace(GOOD_MYSQL, kb_scope="x")])]
)
def test_an_empty_scope_is_said_first(index, asked) -> None:
    result = looked_up("MySQL lock", index, asked=asked)

    assert (result.found, codes(result)) == (False, ["empty_index"])


@pytest.mark.parametrize("query", ["x" * 3_900, "7" * 3_900, "库" * 3_900, "Ab1_" * 975])
def test_one_huge_token_is_a_query_like_any_other(query) -> None:
    rows = [Row("a", content=query, cosine=0.95, bm25=1), *(Row(f"r{n}") for n in range(30))]

    result = looked_up(query, FakeIndex(rows))

    assert result.plan.text == query
    assert len(result.plan.terms) == 1
    assert keys(result)[0] == "a#chunk-0"
    assert result.attempts[0].weights.sparse == 1.0


@pytest.mark.timeout(60)
def test_a_huge_query_of_many_words_is_answered_soon() -> None:
    words = " ".join(f"w{n:05}" for n in range(570))
    rows = [Row(f"r{n}", content=f"w{n:05} " * 100, bm25=1.0) for n in range(40)]

    result = looked_up(words, FakeIndex(rows))

    assert len(result.plan.terms) == 570


# -- the steps --------------------------------------------------------------------------------


def test_every_step_is_timed_in_order() -> None:
    result = looked_up("lock", FakeIndex([GOOD_MYSQL]))

    assert [t.step for t in result.timings] == ["plan", "embed", "search", "select", "pack"]
    assert all(t.seconds >= 0 for t in result.timings)


def test_no_part_of_the_answer_is_an_internal_score() -> None:
    answer = project(looked_up("MySQL lock wait", FakeIndex([FAIR_MYSQL, GOOD_REDIS])))

    fields = {name for item in answer.evidence for name in item.__slots__}
    assert not fields & {"score", "scores", "rank", "fused", "dense", "sparse", "coverage"}
