"""pipelines/explain.py: the fate of every candidate, and where an asked document ended up."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from fakes import SCALE, FakeEmbedder, FakeIndex, FakeLedger, Row, engine_error, tampered
from knowport.core.domains import parse_catalogue
from knowport.errors import EmbeddingUnavailable, EngineError
from knowport.pipelines.explain import Explanation, explain, leg_check
from knowport.pipelines.lookup import LookupOptions, LookupPorts, lookup
from knowport.pipelines.search import SearchOptions

CATALOGUE = parse_catalogue('[[domain]]\nid = "mysql"\nnames = ["MySQL"]\n')
LONG = "lock wait " * 60
ROWS = [
    Row("a", 0, content="lock wait one", cosine=0.98, bm25=20, category="mysql"),
    Row("a", 1, content="lock wait two", cosine=0.97, bm25=19, category="mysql"),
    Row("a", 2, content="lock wait three", cosine=0.96, bm25=18, category="mysql"),
    Row("b", 0, content="lock wait", cosine=0.40, bm25=17, category="redis"),
    Row("c", 0, content="lock wait", cosine=0.93, bm25=16, category="redis"),
    Row("d", 0, content="lock wait", cosine=0.92, bm25=15, category="redis"),
    *(Row(f"x{n:02}", content="none", cosine=0.3 - n / 100) for n in range(10)),
    Row("late", 0, content="none", cosine=0.10),
    Row("late", 1, content="lock", cosine=0.15, bm25=1),
    Row("other", 0, content="lock wait", cosine=0.99, bm25=30, kb_scope="private"),
]
OPTIONS = LookupOptions(search=SearchOptions(retrieve_k=6), return_n=3)


class Asked:
    """An explained lookup over the rows above, unless others are given."""

    def __init__(
        self,
        query="lock wait",
        *,
        rows=ROWS,
        options=OPTIONS,
        embedder=None,
        failing=(),
        thresholds=SCALE,
        **asked,
    ):
        self.index = FakeIndex(rows, dict(failing))
        self.embedder = embedder or FakeEmbedder()
        self.ports = LookupPorts(
            self.embedder, FakeLedger(rows), self.index, "g1", thresholds, CATALOGUE
        )
        self.options = options
        self.result = lookup(query, self.ports, options, **{"kb_scope": "default"} | asked)

    def explain(self, document_id=None) -> Explanation:
        return explain(self.result, document_id, self.ports, self.options)

    def where(self, document_id):
        found = self.explain(document_id).whereabouts
        assert found.document_id == document_id
        return found


def fates(explanation):
    return {row["document_id"]: row["fate"] for row in explanation.candidates}


# -- candidates -------------------------------------------------------------------------------


def test_every_candidate_has_its_ranks_scores_and_fate() -> None:
    explained = Asked().explain()

    assert fates(explained) == {
        "a#chunk-0": "kept",
        "a#chunk-1": "kept",
        "a#chunk-2": "over_cap",
        "b#chunk-0": "below_threshold",
        "c#chunk-0": "kept",
        "d#chunk-0": "beyond_return_n",
    }
    assert [row["rank"] for row in explained.candidates] == [1, 2, 3, 4, 5, 6]
    assert explained.candidates[0] == {
        "document_id": "a#chunk-0",
        "rank": 1,
        "fate": "kept",
        "level": "high",
        "score": 0.98,
        "coverage": 1.0,
        "found_by": ["unfiltered:1"],
        "fused": round(2 / 61, 6),
        "dense": 0.98,
        "dense_rank": 1,
        "sparse": 20,
        "sparse_rank": 1,
    }
    assert explained.whereabouts is None
    assert explained.fusion_check == ()


def test_in_parallel_a_chunk_found_twice_is_kept_once_and_a_duplicate_once() -> None:
    asked = Asked("MySQL lock wait", options=replace(OPTIONS, parallel=True))

    rows = [r for r in asked.explain().candidates if r["document_id"] == "a#chunk-0"]

    assert [(r["fate"], r["found_by"], r["rank"]) for r in rows] == [
        ("kept", ["filtered:1"], 1),
        ("duplicate", ["unfiltered:1"], 1),
    ]
    assert asked.where("a#chunk-0").reason == "kept"


def test_in_parallel_the_duplicate_of_what_was_dropped_does_not_hide_the_reason() -> None:
    asked = Asked("MySQL lock wait", options=replace(OPTIONS, parallel=True))

    rows = [r for r in asked.explain().candidates if r["document_id"] == "a#chunk-2"]

    assert [r["fate"] for r in rows] == ["over_cap", "duplicate"]
    assert asked.where("a#chunk-2").reason == "over_cap"


@pytest.mark.parametrize("ranker", ["rrf", "weighted"])
@pytest.mark.parametrize("parallel", [False, True])
def test_where_the_engine_fused_the_ranks_of_the_legs_are_asked_for(ranker, parallel) -> None:
    """Those of the attempt that found the candidate: in parallel there are two."""
    options = replace(OPTIONS, parallel=parallel)
    search = SearchOptions(retrieve_k=6, ranker=ranker)
    rows = [replace(row, cosine=row.cosine - 0.2) for row in ROWS]
    rows.append(Row("best", content="mysql lock wait", cosine=0.99, bm25=40))
    engine = Asked("MySQL lock", rows=rows, options=replace(options, search=search))
    ours = Asked("MySQL lock", rows=rows, options=options)

    def legs(asked):
        names = ("dense", "dense_rank", "sparse", "sparse_rank")
        return {
            (row["document_id"], row["found_by"][0].partition(":")[0]): [row[n] for n in names]
            for row in asked.explain().candidates
        }

    assert len(engine.result.attempts) == 2
    assert engine.result.candidates[0].hit.scores.sparse_rank is None
    assert legs(engine)
    assert legs(engine).items() <= legs(ours).items()


def test_where_a_leg_fails_afterwards_the_other_is_still_shown() -> None:
    asked = Asked(options=replace(OPTIONS, search=SearchOptions(retrieve_k=6, ranker="rrf")))
    asked.index.failing["sparse"] = engine_error("sparse")

    first, *_ = asked.explain().candidates

    assert (first["dense_rank"], first["sparse"], first["sparse_rank"]) == (1, None, None)


# -- where a document is ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document_id", "reason", "ranks", "says"),
    [
        ("a#chunk-0", "kept", (1, 1), "a#chunk-0, rank 1: It is in the answer."),
        ("a", "kept", (1, 1), "a#chunk-0, rank 1: It is in the answer."),
        ("a#chunk-2", "over_cap", (3, 3), "rag.max_chunks_per_document"),
        ("b#chunk-0", "below_threshold", (6, 4), "score 0.4 is below the threshold"),
        ("b", "below_threshold", (6, 4), "score 0.4 is below the threshold"),
        ("d", "beyond_return_n", (5, 6), "rag.return_n"),
        ("gone", "not_in_index", (None, None), "No document has the id 'gone'."),
        ("gone#chunk-0", "not_in_index", (None, None), "No document has the id 'gone'."),
        ("", "not_in_index", (None, None), "No document has the id ''."),
        ("A#chunk-0", "not_in_index", (None, None), "No document has the id 'A'."),
        ("a#chunk-3", "not_in_index", (None, None), "'a' has 3 chunks, numbered from 0"),
        ("a#chunk-" + "9" * 30, "not_in_index", (None, None), "No document has the id"),
        ("other#chunk-0", "wrong_scope", (None, None), "'private'; the lookup was in 'default'"),
        ("other", "wrong_scope", (None, None), "'private'; the lookup was in 'default'"),
        ("late#chunk-0", "beyond_retrieve_k", (18, None), "dense 18, sparse not found"),
        ("late#chunk-1", "beyond_retrieve_k", (17, 7), "dense 17, sparse 7"),
        ("late", "beyond_retrieve_k", (17, 7), "(rag.retrieve_k)"),
    ],
)
def test_the_reason(document_id, reason, ranks, says) -> None:
    found = Asked().where(document_id)

    assert found.reason == reason
    assert (found.dense_rank, found.sparse_rank) == ranks
    assert says in found.message


# One for each reason that a document can have for not being in the answer.
BIG = "lock wait " * 40
EVERY_REASON = [
    Row("best", 0, content=BIG, cosine=0.99, bm25=30),
    Row("best", 1, content=BIG, cosine=0.98, bm25=29),
    Row("best", 2, content="lock wait", cosine=0.97, bm25=28),
    Row("best", 0, content=BIG, cosine=0.96, bm25=27, row_id="copy-of-best"),
    Row("weak", 0, content="lock wait", cosine=0.1, bm25=26),
    Row("wide", 0, content=BIG, cosine=0.95, bm25=25),
    Row("next", 0, content="lock wait", cosine=0.94, bm25=24),
    *(Row(f"x{n}", content="none", cosine=0.3 - n / 100) for n in range(4)),
    Row("far", 0, content="lock", cosine=0.05, bm25=1),
    Row("redis", 0, content="lock wait", cosine=0.99, bm25=31, category="redis"),
    Row("secret", 0, content="lock wait", cosine=0.99, bm25=32, kb_scope="private"),
]
EVERY_REASON = [replace(row, category=row.category or "mysql") for row in EVERY_REASON]
TIGHT = LookupOptions(
    search=SearchOptions(retrieve_k=7), return_n=3, max_chunks_per_document=2, max_chars=900
)


@pytest.mark.parametrize("ranker", ["adaptive", "rrf"])
@pytest.mark.parametrize(
    ("document_id", "reason", "ranks"),
    [
        ("best#chunk-0", "kept", (1, 1)),
        ("gone#chunk-0", "not_in_index", (None, None)),
        ("best#chunk-3", "not_in_index", (None, None)),
        ("secret#chunk-0", "wrong_scope", (None, None)),
        ("redis#chunk-0", "filtered_out", (None, None)),
        ("far#chunk-0", "beyond_retrieve_k", (12, 8)),
        ("copy-of-best", "duplicate", (4, 4)),
        ("best#chunk-2", "over_cap", (3, 3)),
        ("weak#chunk-0", "below_threshold", (None, 5)),
        ("wide#chunk-0", "out_of_budget", (5, 6)),
        ("next#chunk-0", "beyond_return_n", (6, 7)),
    ],
)
def test_each_reason_has_its_document(ranker, document_id, reason, ranks) -> None:
    options = replace(TIGHT, search=replace(TIGHT.search, ranker=ranker))
    asked = Asked(rows=EVERY_REASON, options=options, category="mysql")

    found = asked.where(document_id)

    assert (found.reason, found.dense_rank, found.sparse_rank) == (reason, *ranks)


def test_a_row_that_holds_the_evidence_of_a_better_one_is_its_duplicate() -> None:
    asked = Asked(rows=EVERY_REASON, options=TIGHT, category="mysql")

    assert asked.where("copy-of-best").message == (
        "best#chunk-0, rank 4: It is the same evidence as the row best#chunk-0, which was found at "
        "rank 1 and has the fate: kept."
    )
    assert asked.where("best#chunk-0").reason == "kept", "the evidence itself is in the answer"
    assert asked.where("best").reason == "kept"


def test_a_duplicate_of_what_is_not_in_the_answer_says_so() -> None:
    rows = [
        Row("a", 0, content="lock wait", cosine=0.3, bm25=9),
        Row("a", 0, content="lock wait", cosine=0.2, bm25=8, row_id="again"),
    ]

    found = Asked(rows=rows).where("again")

    assert (found.reason, found.dense_rank) == ("duplicate", 2)
    assert found.message.endswith("has the fate: below_threshold.")


@pytest.mark.parametrize("document_id", ["vector:77", "77"])
def test_a_row_without_a_document_is_asked_for_by_its_evidence_key_or_its_id(document_id) -> None:
    rows = [Row("", 0, content="lock wait", cosine=0.95, bm25=9, row_id="77")]

    assert Asked(rows=rows).where(document_id).reason == "kept"


def test_in_parallel_a_row_with_two_evidence_of_one_key_is_merged_as_well() -> None:
    asked = Asked(
        "MySQL lock wait", rows=EVERY_REASON, options=replace(TIGHT, parallel=True, max_chars=9_000)
    )

    kept = [row for row in asked.explain().candidates if row["fate"] == "kept"]

    assert len({row["document_id"] for row in kept}) == len(kept) == 3
    assert asked.where("copy-of-best").reason == "duplicate"


def test_of_a_document_the_chunk_that_got_furthest_speaks() -> None:
    rows = [
        Row("a", 0, content="lock wait", cosine=0.2, bm25=9),
        Row("a", 1, content="lock wait", cosine=0.9, bm25=8),
    ]
    asked = Asked(rows=rows)

    assert fates(asked.explain()) == {"a#chunk-0": "below_threshold", "a#chunk-1": "kept"}
    assert asked.where("a").message.startswith("a#chunk-1, ")


def test_what_is_close_enough_only_behind_return_n_did_not_make_an_answer() -> None:
    rows = [
        *(Row(f"x{n}", content="lock wait", cosine=0.3, bm25=9 - n) for n in range(3)),
        Row("late", content="lock", cosine=0.95, bm25=1),
    ]
    narrow = LookupOptions(search=SearchOptions(rrf_k=1_000), return_n=1)

    asked = Asked(rows=rows, options=narrow, thresholds=replace(SCALE, calibrated=True))
    first, *_ = asked.explain().candidates

    assert (first["fate"], asked.result.found) == ("below_threshold", False)
    found = asked.where("late")
    assert found.reason == "beyond_return_n"
    assert "so that the lookup found nothing" in found.message


def test_out_of_budget() -> None:
    rows = [Row(name, content=LONG, cosine=0.95) for name in ("a", "b")]
    asked = Asked(rows=rows, options=replace(OPTIONS, max_chars=len(LONG) + 40))

    assert asked.where("a").reason == "kept"
    assert asked.where("b").reason == "out_of_budget"
    assert "pack.max_chars" in asked.where("b").message


@pytest.mark.parametrize(
    ("query", "asked"), [("lock wait", {"category": "mysql"}), ("MySQL lock wait", {})]
)
def test_filtered_out_by_the_caller_and_by_a_guess_that_served(query, asked) -> None:
    found = Asked(query, **asked).where("c#chunk-0")

    assert found.reason == "filtered_out"
    assert found.message == "Its category is 'redis'; the lookup was filtered to 'mysql'."


def test_where_the_guess_was_given_up_nothing_is_filtered_out() -> None:
    rows = [replace(row, cosine=row.cosine - 0.2) for row in ROWS]
    asked = Asked("MySQL lock wait", rows=rows)

    assert len(asked.result.attempts) == 2
    assert asked.where("c#chunk-0").reason == "kept"


def test_ranks_are_those_under_the_filter_of_the_lookup() -> None:
    narrow = replace(OPTIONS, search=SearchOptions(retrieve_k=1))

    found = Asked(options=narrow, category="redis").where("d")

    assert (found.reason, found.dense_rank, found.sparse_rank) == ("beyond_retrieve_k", 2, 3)


def test_where_the_engine_cut_what_a_leg_had_the_message_does_not_deny_it() -> None:
    """Plain RRF keeps retrieve_k of the union, so the end of a leg may be missing."""
    plain = replace(OPTIONS, search=SearchOptions(retrieve_k=6, ranker="rrf"))
    rows = [
        *(Row(f"d{n}", content="none", cosine=0.9 - n / 100) for n in range(6)),
        *(Row(f"s{n}", content="lock", cosine=0.1, bm25=9 - n) for n in range(6)),
    ]

    found = Asked(rows=rows, options=plain).where("s5")

    assert (found.reason, found.sparse_rank) == ("beyond_retrieve_k", 6)
    assert "No leg" not in found.message


def test_the_width_without_the_limit_is_that_of_the_scope() -> None:
    asked = Asked()
    asked.where("late")

    assert {request.retrieve_k for request in asked.index.asked[2:]} == {len(ROWS) - 1}


def test_a_dense_lookup_has_no_rank_of_words() -> None:
    found = Asked(mode="dense").where("late#chunk-1")

    assert (found.reason, found.dense_rank, found.sparse_rank) == ("beyond_retrieve_k", 17, None)
    assert "dense 17, sparse not searched" in found.message


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("suffix", ["", "#chunk-0"])
def test_an_id_is_the_same_in_every_unicode_form(form, suffix) -> None:
    name = unicodedata.normalize("NFC", "kb/Ångström é.md")
    asked = Asked(rows=[Row(name, content="lock wait", cosine=0.9, bm25=1)])

    assert asked.where(unicodedata.normalize(form, name) + suffix).reason == "kept"


@pytest.mark.parametrize("document_id", ["nul\0", "\ud835", "#chunk-0", "a#chunk-", "a#chunk-01"])
def test_an_odd_id_is_not_in_the_index(document_id) -> None:
    assert Asked().where(document_id).reason == "not_in_index"


def test_before_any_ingest_nothing_is_in_the_index() -> None:
    ports = LookupPorts(FakeEmbedder(), FakeLedger([]), None, "", SCALE)
    result = lookup("lock", ports, OPTIONS, kb_scope="default")

    explained = explain(result, "a#chunk-0", ports, OPTIONS)

    assert explained.whereabouts.reason == "not_in_index"
    assert (explained.candidates, explained.fusion_check) == ((), ())


# -- where something failed -------------------------------------------------------------------


def test_a_degraded_lookup_is_explained_without_an_embedding() -> None:
    asked = Asked(embedder=FakeEmbedder(EmbeddingUnavailable("away")))

    found = asked.where("late#chunk-1")

    assert (found.reason, found.dense_rank, found.sparse_rank) == ("beyond_retrieve_k", None, 7)
    assert "dense failed, sparse 7" in found.message


@pytest.mark.parametrize(("leg", "ranks"), [("dense", (None, 7)), ("sparse", (17, None))])
def test_a_lookup_of_one_leg_is_explained_by_that_leg(leg, ranks) -> None:
    asked = Asked(failing={leg: engine_error(leg)})

    found = asked.where("late#chunk-1")

    assert (found.dense_rank, found.sparse_rank) == ranks
    assert f"{leg} failed" in found.message


def test_a_lookup_that_fails_is_not_explained() -> None:
    with pytest.raises(EngineError):
        Asked(failing={m: engine_error(m) for m in ("dense", "sparse")})


# -- the check of the fusion ------------------------------------------------------------------


def with_hits(result, change, position=-1):
    """The result with the hits of one attempt changed."""
    attempts = list(result.attempts)
    attempts[position] = replace(
        attempts[position], hits=tuple(change(list(attempts[position].hits)))
    )
    return replace(result, attempts=tuple(attempts))


def test_a_fused_score_that_was_tampered_with_is_found() -> None:
    def change(hits):
        hits[2] = tampered(hits[2], fused=hits[2].scores.fused + 1e-6)
        return hits

    found = leg_check(with_hits(Asked().result, change), k=60)

    assert found == ("a#chunk-2",)


@pytest.mark.parametrize("field", ["dense_rank", "sparse_rank", "fused"])
def test_a_leg_rank_that_was_tampered_with_is_found(field) -> None:
    def change(hits):
        return [tampered(hits[0], **{field: None}), *hits[1:]]

    assert leg_check(with_hits(Asked().result, change), k=60)[0] == "a#chunk-0"


def test_a_wrong_place_is_found_though_the_score_is_right() -> None:
    def change(hits):
        return [hits[1], hits[0], *hits[2:]]

    assert leg_check(with_hits(Asked().result, change), k=60) == ("a#chunk-0",)


def test_every_attempt_is_checked() -> None:
    result = Asked("MySQL lock wait", options=replace(OPTIONS, parallel=True)).result

    def change(hits):
        return [tampered(hits[0], fused=0.5), *hits[1:]]

    assert leg_check(result, k=60) == ()
    assert leg_check(with_hits(result, change, 0), k=60) == ("a#chunk-0",)


def test_the_k_of_the_settings_is_checked() -> None:
    options = replace(OPTIONS, search=SearchOptions(retrieve_k=6, rrf_k=5))
    asked = Asked(options=options)

    assert asked.explain().fusion_check == ()
    assert leg_check(asked.result, k=60) != ()


@pytest.mark.parametrize("ranker", ["rrf", "weighted"])
def test_what_the_engine_fused_is_not_checked_here(ranker) -> None:
    options = replace(OPTIONS, search=SearchOptions(retrieve_k=6, ranker=ranker))

    assert Asked(options=options).explain().fusion_check == ()
