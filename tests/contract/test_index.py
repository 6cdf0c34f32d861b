"""What a user of the index relies on, on every engine."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymilvus import MilvusClient

from engines import LEXICAL, Engines, free_port, running
from knowport.adapters.milvus import Engine, MilvusIndex, schema
from knowport.core.fusion import rrf
from knowport.errors import (
    ConfigurationError,
    EngineError,
    EngineUnavailable,
    InvalidInput,
)
from knowport.model import SearchHit, SearchMode, Vector
from support import children_of

from .conftest import DIMENSION
from .samples import axis, chunk, request, vector

Reopen = Callable[[MilvusIndex], MilvusIndex]

lexical_only = pytest.mark.engine(*LEXICAL)

# Each differs from another by what a careless filter or a careless comparison would miss.
HOSTILE = [
    "a",
    "ab",
    "A",
    " a",
    'a"',
    "a'",
    "a\\",
    'a\\"',
    'x" or doc_id != "',
    'x" or category != "',
    "x' or id != '",
    "%",
    "a%27",
    "a\u3000b",
    "a\u200db",
    "a_",
    "*",
    "夜班\\",
    "e\N{COMBINING ACUTE ACCENT}",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
]


def ids(hits: tuple[SearchHit, ...]) -> list[str]:
    return [hit.id for hit in hits]


def random_vectors(count: int, *, seed: int) -> list[Vector]:
    return list(np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32))


# -- writing --------------------------------------------------------------------------------


def test_what_was_written_is_found_at_once(index: MilvusIndex, mode: SearchMode) -> None:
    written = chunk(
        "docs/网络.md",
        3,
        "数据库主从切换",
        title="标题",
        breadcrumb="A > B",
        start=7,
        end=14,
        source="网络.md",
        category="network",
        metadata={"tags": ["x", "y"], "owner": {"name": "运维"}, "none": None},
    )
    index.upsert_chunks([written])

    (hit,) = index.search(request("主从", mode=mode))

    assert replace(hit, scores=replace(hit.scores, fused=None, dense_rank=None)) == SearchHit(
        id="docs/网络.md#chunk-3",
        doc_id="docs/网络.md",
        chunk_index=3,
        content="数据库主从切换",
        title="标题",
        breadcrumb="A > B",
        source="网络.md",
        category="network",
        scores=replace(hit.scores, fused=None, dense_rank=None, dense=pytest.approx(1.0)),
        metadata={
            "tags": ["x", "y"],
            "owner": {"name": "运维"},
            "none": None,
            "start": 7,
            "end": 14,
        },
    )
    assert index.count() == 1


def test_each_write_is_seen_by_the_next_search(index: MilvusIndex, mode: SearchMode) -> None:
    for number in range(5):
        index.upsert_chunks([chunk(number=number)])
        assert len(index.search(request(mode=mode))) == number + 1


def test_upsert_replaces(index: MilvusIndex, mode: SearchMode) -> None:
    index.upsert_chunks([chunk(number=0, text="old words"), chunk(number=1, text="other")])
    index.upsert_chunks([chunk(number=0, text="new words")])

    hits = index.search(request("words", mode=mode))

    assert sorted((hit.id, hit.content) for hit in hits) == [
        ("doc#chunk-0", "new words"),
        ("doc#chunk-1", "other"),
    ]
    assert index.count() == 2
    assert sorted(index.iter_ids()) == ["doc#chunk-0", "doc#chunk-1"]


def test_a_write_of_several_batches_ends_complete(index: MilvusIndex) -> None:
    index.upsert_chunks([chunk(number=number, text=f"text {number}") for number in range(700)])

    assert index.count() == 700
    assert set(index.iter_ids()) == {f"doc#chunk-{number}" for number in range(700)}
    assert index.delete_by_doc_id("doc", from_index=690) == 10
    assert index.count() == 690


def test_nothing_to_write(index: MilvusIndex) -> None:
    index.upsert_chunks([])

    assert index.count() == 0


def test_text_is_kept_to_the_byte_limit_whole(index: MilvusIndex) -> None:
    longest = "库" * (schema.MAX_BYTES["content"] // 3)
    index.upsert_chunks([chunk("three thousand", text="库" * 3000), chunk("longest", text=longest)])

    found = {hit.doc_id: hit.content for hit in index.search(request())}

    assert found == {"three thousand": "库" * 3000, "longest": longest}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "content over the limit in bytes, not in characters": ({"text": "库" * 20_001}, "content"),
    "search text": ({"search_text": "库" * 21_846}, "search_text"),
    "title": ({"title": "题" * 342}, "title"),
    "category": ({"category": "类" * 86}, "category"),
    "lone surrogate": ({"text": "a\ud800"}, "content"),
    "text that is None": ({"content": None}, "content"),
    "control character in the category": ({"category": "a\nb"}, "category"),
    "control character in the scope": ({"kb_scope": "a\tb"}, "kb_scope"),
    "control character in the document id": ({"doc_id": "\x00bad"}, "doc_id"),
    "metadata that JSON has not": ({"metadata": {"x": float("nan")}}, "metadata"),
    "metadata that JSON knows not": ({"metadata": {"x": object()}}, "metadata"),
    "metadata with a lone surrogate": ({"metadata": {"x": "\udfff"}}, "metadata"),
    "metadata over the limit": ({"metadata": {"x": "库" * 21_700}}, "metadata"),
    "vector with NaN": ({"vector": vector(1.0, float("nan"))}, "dense_vector"),
    "vector with infinity": ({"vector": vector(1.0, float("inf"))}, "dense_vector"),
    "zero vector": ({"vector": vector()}, "dense_vector"),
    "vector of another dimension": ({"vector": vector(1.0)[:-1]}, "dense_vector"),
    "two vectors": ({"vector": np.ones((2, DIMENSION), dtype=np.float32)}, "dense_vector"),
    "no vector": ({"vector": None}, "dense_vector"),
}


def test_a_refused_chunk_stores_nothing_of_its_write(index: MilvusIndex) -> None:
    for case, (fault, field) in REFUSED.items():
        bad = chunk(**{"doc_id": "bad", "number": 7, **fault})
        with pytest.raises(InvalidInput) as error:
            index.upsert_chunks([*(chunk(number=number) for number in range(300)), bad])
        assert error.value.field == field, case
        named = "vector" if field == "dense_vector" else field
        assert named in str(error.value).lower(), case
        assert "bad#chunk-7'" in str(error.value), case

    assert index.count() == 0


def test_the_same_id_twice_in_one_write_is_refused(index: MilvusIndex) -> None:
    with pytest.raises(InvalidInput, match="'doc#chunk-0' is given twice"):
        index.upsert_chunks([chunk(text="one"), chunk(number=1), chunk(text="two")])

    assert index.count() == 0


# -- deleting -------------------------------------------------------------------------------


def test_delete_reaches_its_document_only(index: MilvusIndex) -> None:
    index.upsert_chunks([chunk(doc, number) for doc in HOSTILE for number in range(2)])
    all_ids = {f"{doc}#chunk-{number}" for doc in HOSTILE for number in range(2)}
    assert set(index.iter_ids()) == all_ids
    assert set(ids(index.search(request(retrieve_k=100)))) == all_ids

    deleted = HOSTILE[::2]
    for done, doc in enumerate(deleted, start=1):
        assert index.delete_by_doc_id(doc) == 2, doc
        assert index.count() == len(all_ids) - 2 * done, doc

    left = {f"{doc}#chunk-{number}" for doc in HOSTILE[1::2] for number in range(2)}
    assert set(index.iter_ids()) == left
    assert set(ids(index.search(request(retrieve_k=100)))) == left


def test_delete_of_an_unknown_document_is_zero(index: MilvusIndex) -> None:
    assert index.delete_by_doc_id("doc") == 0
    index.upsert_chunks([chunk()])
    assert index.delete_by_doc_id("do") == 0
    assert index.delete_by_doc_id("doc#chunk-0") == 0
    assert index.count() == 1


def test_delete_of_a_tail(index: MilvusIndex, mode: SearchMode) -> None:
    index.upsert_chunks([chunk(number=n, text=f"section {n}") for n in range(12)])
    index.upsert_chunks([chunk("doc2", n, text=f"section {n}") for n in range(12)])

    assert index.delete_by_doc_id("doc", from_index=2) == 10  # 10 and 11 are not below 2

    assert sorted(index.iter_ids(doc_id="doc")) == ["doc#chunk-0", "doc#chunk-1"]
    assert index.count() == 14
    assert index.delete_by_doc_id("doc", from_index=2) == 0
    found = index.search(request("section", mode=mode, retrieve_k=30))
    assert {hit.chunk_index for hit in found if hit.doc_id == "doc"} == {0, 1}
    assert len(found) == 14


def test_what_was_deleted_is_never_found_again(
    index: MilvusIndex, mode: SearchMode, reopen: Reopen
) -> None:
    index.upsert_chunks([chunk("gone", 0, text="marker"), chunk("kept", 0, text="marker rest")])
    asked = request("marker", mode=mode)
    assert {hit.doc_id for hit in index.search(asked)} == {"gone", "kept"}

    assert index.delete_by_doc_id("gone") == 1

    assert ids(index.search(asked)) == ["kept#chunk-0"]
    index = reopen(index)
    assert ids(index.search(asked)) == ["kept#chunk-0"]
    assert list(index.iter_ids()) == ["kept#chunk-0"]


@lexical_only
def test_what_was_deleted_is_in_no_single_leg(
    index: MilvusIndex, engine: Engine, reopen: Reopen
) -> None:
    index.upsert_chunks([chunk("gone", 0, text="marker"), chunk("kept", 0, text="marker rest")])
    index.delete_by_doc_id("gone")

    def legs(engine: Engine) -> list[list[str]]:
        found = [
            engine.client.search(index.collection, data=[asked], anns_field=field, limit=10)
            for asked, field in ((axis(0), "dense_vector"), ("marker", "sparse_vector"))
        ]
        return [[row["id"] for row in rows] for (rows,) in found]

    assert legs(engine) == [["kept#chunk-0"], ["kept#chunk-0"]]
    again = reopen(index)
    assert legs(again._engine) == [["kept#chunk-0"], ["kept#chunk-0"]]


# -- counting and listing -------------------------------------------------------------------


def test_count_by_scope_and_document(index: MilvusIndex) -> None:
    index.upsert_chunks(
        [chunk("a", n, kb_scope="one") for n in range(3)]
        + [chunk("b", n, kb_scope="two") for n in range(2)]
    )

    assert index.count() == 5
    assert index.count(kb_scope="one") == 3
    assert index.count(kb_scope="two", doc_id="b") == 2
    assert index.count(kb_scope="two", doc_id="a") == 0
    assert index.count(doc_id="missing") == 0


@pytest.mark.engine("lite", "milvus-2.3")  # the ones with such a limit
def test_every_id_is_listed_beyond_the_row_limit_of_a_query(index: MilvusIndex) -> None:
    index.upsert_chunks([chunk("big", number, text="") for number in range(16_500)])

    listed = list(index.iter_ids())

    assert len(listed) == 16_500
    assert set(listed) == {f"big#chunk-{number}" for number in range(16_500)}


# -- searching ------------------------------------------------------------------------------


def test_an_empty_index_has_no_hits(index: MilvusIndex, mode: SearchMode) -> None:
    assert index.search(request(mode=mode)) == ()
    index.upsert_chunks([chunk("a"), chunk("b")])
    index.delete_by_doc_id("a")
    index.delete_by_doc_id("b")
    assert index.search(request(mode=mode)) == ()
    index.upsert_chunks([chunk("c")])
    assert ids(index.search(request(mode=mode))) == ["c#chunk-0"]


def test_every_hit_is_of_the_asked_category_and_scope(index: MilvusIndex, mode: SearchMode) -> None:
    # The asked rows are the worst of both legs: a filter that is not applied would show.
    index.upsert_chunks(
        [
            chunk(f"{scope}-{category}", n, "word " * (1 if wanted else 5), category=category,
                  kb_scope=scope, vector=vector(1.0, 1.0 if wanted else 0.0))
            for scope in ("one", "two")
            for category in ("network", "")
            for wanted in [(scope, category) == ("one", "network")]
            for n in range(4)
        ]
    )  # fmt: skip

    def found(**asked: Any) -> set[tuple[str, int | None]]:
        hits = index.search(request("word", mode=mode, retrieve_k=4, **asked))
        return {(hit.doc_id, hit.chunk_index) for hit in hits}

    assert found(kb_scope="one", category="network") == {("one-network", n) for n in range(4)}
    assert found(kb_scope="one", category="") == {("one-", n) for n in range(4)}
    assert {doc for doc, _ in found(kb_scope="two")} <= {"two-", "two-network"}
    assert found(kb_scope="three") == set()
    assert found(kb_scope="one", category="missing") == set()


def test_filter_values_match_literally(index: MilvusIndex, mode: SearchMode) -> None:
    index.upsert_chunks(
        [chunk(f"category {n}", 0, category=value) for n, value in enumerate(HOSTILE)]
        + [chunk(f"scope {n}", 0, kb_scope=value) for n, value in enumerate(HOSTILE)]
    )

    for n, value in enumerate(HOSTILE):
        by_category = index.search(request(mode=mode, category=value, retrieve_k=50))
        assert ids(by_category) == [f"category {n}#chunk-0"], value
        by_scope = index.search(request(mode=mode, kb_scope=value, retrieve_k=50))
        assert ids(by_scope) == [f"scope {n}#chunk-0"], value


def test_control_characters_in_a_filter_are_refused(index: MilvusIndex, mode: SearchMode) -> None:
    index.upsert_chunks([chunk()])

    with pytest.raises(InvalidInput, match="control character") as error:
        index.search(request(mode=mode, category="a\nb"))
    assert error.value.field == "category"
    with pytest.raises(InvalidInput, match="control character") as error:
        index.search(request(mode=mode, kb_scope="\x00"))
    assert error.value.field == "kb_scope"
    with pytest.raises(InvalidInput, match="control character"):
        index.delete_by_doc_id("doc\n")
    assert index.count() == 1


def test_dense_score_is_the_cosine(index: MilvusIndex, mode: SearchMode) -> None:
    vectors = random_vectors(20, seed=11)
    vectors[3] *= 100  # not of unit length
    asked = random_vectors(1, seed=12)[0] * 3
    vectors[4] = -asked
    index.upsert_chunks([chunk(number=n, vector=value) for n, value in enumerate(vectors)])

    hits = index.search(request(mode=mode, vector=asked, retrieve_k=20))

    assert len(hits) == 20
    for hit in hits:
        assert hit.chunk_index is not None
        stored = vectors[hit.chunk_index].astype(np.float64)
        cosine = stored @ asked / (np.linalg.norm(stored) * np.linalg.norm(asked))
        assert hit.scores.dense == pytest.approx(cosine, abs=1e-5)
        assert -1 - 1e-5 <= hit.scores.dense <= 1 + 1e-5
    assert {hit.chunk_index: hit.scores.dense for hit in hits}[4] == pytest.approx(-1, abs=1e-5)
    if mode == "dense":
        scores = [hit.scores.dense for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert [hit.scores.dense_rank for hit in hits] == list(range(1, 21))
        assert all(hit.scores.fused is None and hit.scores.sparse is None for hit in hits)


def test_retrieve_k_bounds_the_hits(index: MilvusIndex, mode: SearchMode) -> None:
    index.upsert_chunks(
        [
            chunk(number=n, text=f"text {n}", vector=value)
            for n, value in enumerate(random_vectors(40, seed=21))
        ]
    )

    for wanted in (1, 7, 40):
        assert len(index.search(request(mode=mode, retrieve_k=wanted))) == wanted
    assert len(index.search(request(mode=mode, retrieve_k=100))) == 40


def test_order_is_the_same_every_time(index: MilvusIndex, mode: SearchMode, reopen: Reopen) -> None:
    order = list(range(60))
    random.Random(31).shuffle(order)
    index.upsert_chunks(
        [chunk(f"doc{n:02}", 0, f"text word{n % 3}", vector=axis(n % 4)) for n in order]
    )
    asked = request("word1", mode=mode, vector=vector(1.0, 0.5, 0.25), retrieve_k=20)

    first = index.search(asked)

    assert len(first) == 20
    score = [hit.scores.dense if mode == "dense" else hit.scores.fused for hit in first]
    in_order = sorted(zip(score, ids(first), strict=True), key=lambda pair: (-pair[0], pair[1]))
    assert [key for _, key in in_order] == ids(first)
    for _ in range(5):
        assert index.search(asked) == first
    index = reopen(index)
    for _ in range(3):
        assert index.search(asked) == first


# -- searches that run at once --------------------------------------------------------------


def legs(index: MilvusIndex) -> tuple[SearchMode, ...]:
    return ("dense", "sparse", "hybrid") if index._lexical else ("dense",)


def test_a_search_that_was_begun_brings_what_a_search_brings(index: MilvusIndex) -> None:
    asked = [request("word1", mode=mode, retrieve_k=7) for mode in legs(index)]
    assert [index.begin_search(one)() for one in asked] == [()] * len(asked), "an empty index"
    vectors = random_vectors(30, seed=41)
    index.upsert_chunks(
        [chunk(f"doc{n}", 0, f"text word{n % 4}", vector=value) for n, value in enumerate(vectors)]
    )

    for _ in range(2):  # the first search of an index looks whether it holds rows
        begun = [index.begin_search(one)() for one in asked]

        assert begun == [index.search(one) for one in asked]
        assert all(len(hits) == 7 for hits in begun)


def test_searches_under_way_at_once_do_not_mix(index: MilvusIndex) -> None:
    vectors = random_vectors(30, seed=42)
    index.upsert_chunks([chunk(f"doc{n:02}", vector=value) for n, value in enumerate(vectors)])
    index.search(request())
    asked = [request(vector=value, retrieve_k=1 + n % 3) for n, value in enumerate(vectors)]

    waiting = [index.begin_search(one) for one in asked]
    found = [wait() for wait in reversed(waiting)][::-1]
    with ThreadPoolExecutor(8) as pool:
        again = list(pool.map(lambda one: index.begin_search(one)(), asked))

    assert [hits[0].doc_id for hits in found] == [f"doc{n:02}" for n in range(30)]
    assert [len(hits) for hits in found] == [1 + n % 3 for n in range(30)]
    assert again == found


def test_a_search_that_was_begun_fails_as_a_search_does(index: MilvusIndex) -> None:
    gone = MilvusIndex(
        index._engine, f"{index.collection}_gone", dimension=DIMENSION, lexical=index._lexical
    )
    gone.create()
    gone.upsert_chunks([chunk()])
    gone.search(request())
    gone.drop()

    for mode in set(legs(index)):
        wait = gone.begin_search(request(mode=mode))
        with pytest.raises(EngineError, match="_gone"):
            wait()


@pytest.mark.engine("milvus-2.3")
def test_a_leg_that_is_not_there_is_told_when_it_is_waited_for(index: MilvusIndex) -> None:
    index.upsert_chunks([chunk()])
    index.search(request())

    wait = index.begin_search(request(mode="sparse"))

    with pytest.raises(ConfigurationError, match="no BM25 field"):
        wait()


def test_ties_are_in_order_of_id(index: MilvusIndex) -> None:
    index.upsert_chunks([chunk(doc) for doc in ("c", "a", "e", "b", "d")])

    assert [hit.doc_id for hit in index.search(request())] == ["a", "b", "c", "d", "e"]


# -- the lexical leg ------------------------------------------------------------------------

TEXTS = [
    "数据库主从切换之后，请检查从库延迟。",
    "MySQL Failover guide for operators",
    "等待锁超时 innodb_lock_wait_timeout 调整",
    "ORA-00257: archiver error",
    "错误码 1205 的处理",
    "交换机端口与网络",
    "plain filler about nothing",
]


@lexical_only
@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("主从", 0),
        ("从库延迟", 0),
        ("failover", 1),
        ("FAILOVER", 1),
        ("mysql", 1),
        ("innodb_lock_wait_timeout", 2),
        ("INNODB_LOCK_WAIT_TIMEOUT", 2),
        ("ORA-00257", 3),
        ("ora-00257", 3),
        ("1205", 4),
        ("交换机", 5),
    ],
)
def test_words_are_found(index: MilvusIndex, query: str, position: int) -> None:
    # The query vector is nearest to the filler, so the text is found by its words or not at all.
    index.upsert_chunks(
        [
            chunk(f"doc{n}", 0, text, vector=vector(1.0, len(TEXTS) - n + 0.0))
            for n, text in enumerate(TEXTS)
        ]
    )

    hits = index.search(request(query, mode="hybrid", retrieve_k=2))

    assert f"doc{position}#chunk-0" in ids(hits)


@lexical_only
@pytest.mark.parametrize("query", ["", "   ", "？！，", "的了", "🙂", "\x00", "x" * 20_000])
def test_a_query_without_words_does_not_fail(index: MilvusIndex, query: str) -> None:
    index.upsert_chunks([chunk(f"doc{n}", 0, text) for n, text in enumerate(TEXTS)])

    assert len(index.search(request(query, mode="hybrid"))) == len(TEXTS)


@lexical_only
def test_hybrid_order_is_that_of_the_formula(index: MilvusIndex) -> None:
    # No ties within a leg: distinct cosines, and the word count decides the BM25 order.
    index.upsert_chunks(
        [
            chunk(f"doc{n}", 0, "word " * (1 + 3 * n % 7) + "filler " * 10,
                  vector=vector(1.0, 0.1 * n))
            for n in range(7)
        ]
    )  # fmt: skip
    dense = [f"doc{n}#chunk-0" for n in range(7)]
    sparse = [f"doc{n}#chunk-0" for n in (2, 4, 6, 1, 3, 5, 0)]

    hits = index.search(request("word", mode="hybrid", rrf_k=10))

    expected = rrf([dense, sparse], k=10)
    assert ids(hits) == [key for key, _ in expected]
    assert [hit.scores.fused for hit in hits] == pytest.approx([score for _, score in expected])
    assert all(hit.scores.sparse is None and hit.scores.dense_rank is None for hit in hits)


@lexical_only
def test_the_analyzer_is_proved(index: MilvusIndex, engine: Engine) -> None:
    index.prove_analyzer()

    assert f"{index.collection}_probe" not in engine.client.list_collections()


@pytest.mark.engine("lite")
def test_a_wrong_analyzer_is_refused(
    index: MilvusIndex, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "ANALYZER", {"tokenizer": "whitespace"})

    with pytest.raises(EngineError, match=r"does not find.*主从.*FAILOVER") as error:
        index.prove_analyzer()

    assert not error.value.transient
    assert f"{index.collection}_probe" not in engine.client.list_collections()


@pytest.mark.engine("milvus-2.3")
def test_hybrid_needs_a_lexical_engine(index: MilvusIndex, engine: Engine) -> None:
    assert not engine.lexical
    index.prove_analyzer()  # nothing to prove

    with pytest.raises(ConfigurationError, match="BM25"):
        index.search(request(mode="hybrid"))


@lexical_only
def test_an_engine_with_bm25_is_known_as_such(engine: Engine) -> None:
    assert engine.lexical


@lexical_only
def test_bm25_sign_makes_more_better(index: MilvusIndex, engine: Engine) -> None:
    index.upsert_chunks([chunk("once", 0, "word filler filler"), chunk("thrice", 0, "word " * 3)])

    (rows,) = engine.client.search(
        index.collection, data=["word"], anns_field="sparse_vector", limit=2
    )

    scores = {row["id"]: engine.bm25_sign * row["distance"] for row in rows}
    assert scores["thrice#chunk-0"] > scores["once#chunk-0"] > 0


# -- a collection's life --------------------------------------------------------------------


def test_a_collection_exists_until_dropped(index: MilvusIndex, engine: Engine) -> None:
    other = MilvusIndex(engine, f"{index.collection}_other", dimension=2, lexical=False)
    assert index.exists()
    assert not other.exists()
    other.create()
    assert other.exists()
    other.drop()
    assert not other.exists()
    assert index.exists()


@pytest.mark.parametrize(
    ("method", "call"), [("_create_index", 1), ("_create_index", 2), ("load_collection", 1)]
)
def test_a_collection_that_is_half_made_is_made_whole(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    """Its making is several calls, and an interruption falls between any two of them."""
    if (method, call) == ("_create_index", 2) and not engine.lexical:
        return  # it has one index
    half = MilvusIndex(engine, "half_made", dimension=DIMENSION, lexical=engine.lexical)
    assert not half.is_whole()
    original, calls = getattr(MilvusClient, method), []

    def interrupted(*args: Any, **more: Any) -> None:
        calls.append(method)
        if len(calls) == call:
            raise KeyboardInterrupt
        original(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(MilvusClient, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            half.create()
    assert half.exists()
    assert half.is_whole() == (method == "load_collection")

    half.create()

    assert half.is_whole()
    assert_found(half, engine)
    half.create()
    assert half.count() == 1
    half.drop()


def test_a_collection_that_was_released_is_loaded(index: MilvusIndex, engine: Engine) -> None:
    index.upsert_chunks([chunk()])
    engine.client.release_collection(index.collection)
    index.create()
    assert_found(index, engine)


@lexical_only
def test_an_index_is_made_over_the_rows_that_are_there(index: MilvusIndex, engine: Engine) -> None:
    index.upsert_chunks([chunk()])
    engine.client.release_collection(index.collection)
    engine.client.drop_index(index.collection, "sparse_vector")
    assert not index.is_whole()
    index.create()
    assert index.count() == 1
    assert_found(index, engine)


def assert_found(index: MilvusIndex, engine: Engine) -> None:
    """A chunk that is written, if it is not there, is found in each leg."""
    index.upsert_chunks([chunk()])
    modes: tuple[SearchMode, ...] = ("dense", "sparse") if engine.lexical else ("dense",)
    for mode in modes:
        assert ids(index.search(request(mode=mode))) == ["doc#chunk-0"]


def test_asking_a_missing_collection_is_an_error(engine: Engine, mode: SearchMode) -> None:
    missing = MilvusIndex(engine, "missing", dimension=DIMENSION, lexical=engine.lexical)

    with pytest.raises(EngineError, match="missing"):
        missing.search(request(mode=mode))
    with pytest.raises(EngineError, match="missing"):
        missing.count()
    with pytest.raises(EngineError, match="missing"):
        missing.upsert_chunks([chunk()])


# -- engines that are held or gone ----------------------------------------------------------

_OPEN_AND_REPORT = """
import sys
from knowport.adapters.milvus import Engine
from knowport.errors import IndexInUse
try:
    Engine.connect(sys.argv[1]).close()
except IndexInUse as error:
    print(f"{error.exit_code} {error.transient} {error}")
else:
    print("opened")
"""


def open_in_another_process(file: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _OPEN_AND_REPORT, str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(schema.__file__).parents[3])},
    )
    return done.stdout.strip()


def embedded(file: Path) -> tuple[Engine, MilvusIndex]:
    engine = Engine.connect(str(file))
    return engine, MilvusIndex(engine, "chunks", dimension=DIMENSION, lexical=True)


def test_an_embedded_file_is_one_process_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "milvus.db"
    engine, index = embedded(file)
    index.create()

    report = open_in_another_process(file)

    assert report.startswith("5 True ")
    assert str(file) in report
    assert f"process {os.getpid()}" in report
    assert "server" in report
    for word in ("delete", "remove", "move", "rm ", "kill"):
        assert word not in report.lower()
    index.upsert_chunks([chunk()])  # the holder is not disturbed
    assert index.count() == 1

    engine.close()
    assert open_in_another_process(file) == "opened"
    engine, index = embedded(file)
    assert index.count() == 1
    engine.close()


_OPEN_AND_HOLD = """
import sys
from knowport.adapters.milvus import Engine
from knowport.errors import IndexInUse
try:
    engine = Engine.connect(sys.argv[1])
except IndexInUse:
    print("in use", flush=True)
else:
    engine.client.list_collections()
    print("opened", flush=True)
    sys.stdin.read()
    engine.client.list_collections()
    engine.close()
"""


@pytest.mark.parametrize("there", [False, True])
def test_of_several_that_start_at_once_one_gets_the_file(tmp_path: Path, there: bool) -> None:
    file = tmp_path / "milvus.db"
    if there:
        embedded(file)[0].close()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _OPEN_AND_HOLD, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(schema.__file__).parents[3])},
        )
        for _ in range(4)
    ]
    said = [process.stdout.readline().strip() for process in started if process.stdout]
    for process in started:
        process.communicate(timeout=60)

    assert sorted(said) == ["in use", "in use", "in use", "opened"]
    assert [process.returncode for process in started] == [0, 0, 0, 0]


def test_a_child_does_not_keep_the_file(tmp_path: Path) -> None:
    file = tmp_path / "milvus.db"
    engine, _ = embedded(file)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)  # until the parent is done with it
        os._exit(0)
    os.close(reading)
    engine.close()

    assert open_in_another_process(file) == "opened"

    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0


def test_what_locks_the_file_must_be_writable() -> None:
    """Its name begins with a dot, so it is what a `chown home/*` leaves behind."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    embedded(folder / "milvus.db")[0].close()
    for path in (folder, folder / "milvus.db"):
        path.chmod(0o777)
    (folder / ".milvus.db.owner").chmod(0o444)
    user = os.geteuid()
    if not user:
        os.seteuid(65534)
    try:
        with pytest.raises(ConfigurationError, match=r"\.milvus\.db\.owner can be read only"):
            Engine.connect(str(folder / "milvus.db"))
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)


def test_one_process_may_open_an_embedded_file_twice(tmp_path: Path) -> None:
    first, index = embedded(tmp_path / "milvus.db")
    index.create()
    second, same = embedded(tmp_path / "milvus.db")
    same.upsert_chunks([chunk()])

    second.close()
    second.close()
    time.sleep(1)  # an engine that has lost its lock would be gone by now

    assert index.count() == 1
    assert "process" in open_in_another_process(tmp_path / "milvus.db")
    first.close()


@pytest.mark.parametrize(
    "name", ["data", "kb.sqlite", "知识.db", f"{'x' * 34}.db", "a b.db", ".db"]
)
def test_a_file_name_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be named"):
        Engine.connect(str(tmp_path / name), timeout=5)


def test_a_uri_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"milvus\.uri"):
        Engine.connect("ftp://127.0.0.1:19530", timeout=5)


@pytest.mark.timeout(180)
def test_a_closed_port_is_told_in_time() -> None:
    with pytest.raises(EngineUnavailable, match="cannot be reached") as error:
        Engine.connect(f"http://127.0.0.1:{free_port()}", timeout=2)

    assert error.value.transient


def calls_of(index: MilvusIndex) -> dict[str, Callable[[], object]]:
    def begun_search() -> object:
        wait = index.begin_search(request())
        return wait()

    return {
        "search": lambda: index.search(request()),
        "begun search": begun_search,
        "upsert": lambda: index.upsert_chunks([chunk()]),
        "count": index.count,
        "delete": lambda: index.delete_by_doc_id("doc"),
        "exists": index.exists,
    }


def assert_unavailable(engine: Engine) -> None:
    """Within a limit that only these calls have: what is made ready before takes its time."""
    index = MilvusIndex(replace(engine, timeout=1), "chunks", dimension=DIMENSION, lexical=True)
    for call in calls_of(index).values():
        with pytest.raises(EngineUnavailable):
            call()


@pytest.mark.parametrize("home", [None, "", "/nowhere/home", "/proc"])
def test_an_account_without_a_home_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    engine, index = embedded(tmp_path / "milvus.db")
    index.create()
    index.upsert_chunks([chunk()])

    assert len(index.search(request())) == 1
    assert os.environ.get("HOME") == home
    engine.close()


@pytest.mark.parametrize("folder", ["plain", "with a blank", "知识库", 'it\'s "quoted" $HOME'])
def test_engines_share_no_scratch_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Of two that made the same folder at the same moment, one failed at everything."""
    monkeypatch.setenv("HOME", str(tmp_path))
    opened = [embedded(tmp_path / folder / name) for name in ("one.db", "two.db")]
    for _, index in opened:
        index.create()
        index.upsert_chunks([chunk()])

    homes = [tmp_path / folder / f".{name}.db.scratch" for name in ("one", "two")]
    scratch = [home / ".cache" / "milvus" for home in homes]
    assert [path.is_dir() for path in scratch] == [True, True]
    assert not (tmp_path / ".cache").exists()
    opened[0][0].close()
    assert [path.is_dir() for path in scratch] == [False, True]
    assert len(opened[1][1].search(request())) == 1
    opened[1][0].close()


def test_scratch_files_of_a_killed_engine_do_no_harm(tmp_path: Path) -> None:
    engine, index = embedded(tmp_path / "milvus.db")
    index.create()
    index.upsert_chunks([chunk()])
    os.kill(engine_process(tmp_path / "milvus.db"), signal.SIGKILL)
    engine.close()
    assert (tmp_path / ".milvus.db.scratch/.cache/milvus").is_dir()

    engine, index = embedded(tmp_path / "milvus.db")

    assert len(index.search(request())) == 1
    engine.close()


def test_a_connection_that_was_closed_is_told(tmp_path: Path) -> None:
    engine, index = embedded(tmp_path / "milvus.db")
    index.create()
    index.upsert_chunks([chunk()])
    assert index.begin_search(request())() == index.search(request())
    engine.close()

    for call in (lambda: index.search(request()), index.begin_search(request())):
        with pytest.raises(EngineError):
            call()


@pytest.mark.timeout(180)
def test_an_embedded_engine_that_was_killed_is_told_in_time(tmp_path: Path) -> None:
    engine, index = embedded(tmp_path / "milvus.db")
    index.create()
    index.upsert_chunks([chunk(number=n, text=f"text {n}") for n in range(20)])
    index.delete_by_doc_id("doc", from_index=15)
    assert len(index.search(request())) == 15
    os.kill(engine_process(tmp_path / "milvus.db"), signal.SIGKILL)

    assert_unavailable(engine)

    engine.close()
    engine, index = embedded(tmp_path / "milvus.db")  # all that was written is still there
    assert set(index.iter_ids()) == {f"doc#chunk-{n}" for n in range(15)}
    assert len(index.search(request("text", mode="hybrid"))) == 15
    engine.close()


@pytest.mark.timeout(180)
def test_an_engine_that_hangs_is_told_in_time(tmp_path: Path) -> None:
    engine, index = embedded(tmp_path / "milvus.db")
    index.create()
    index.upsert_chunks([chunk()])
    index.search(request())
    process = engine_process(tmp_path / "milvus.db")

    stop(process)
    try:
        assert_unavailable(engine)
    finally:
        os.kill(process, signal.SIGCONT)

    assert [hit.id for hit in index.search(request())] == ["doc#chunk-0"]
    engine.close()


@pytest.mark.timeout(180)
def test_a_server_that_went_away_is_told_in_time(tmp_path: Path) -> None:
    with running("lite-server", tmp_path / "server") as server:
        engine = Engine.connect(server.uri)
        index = MilvusIndex(engine, "chunks", dimension=DIMENSION, lexical=True)
        index.create()
        index.upsert_chunks([chunk()])
        assert len(index.search(request())) == 1
        server.kill()

        assert_unavailable(engine)
        engine.close()


def stop(process: int) -> None:
    """SIGSTOP, and wait until all threads have stopped: on a busy machine one may still answer."""
    os.kill(process, signal.SIGSTOP)
    deadline = time.monotonic() + 120
    while thread_states(process) != {"T"}:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def thread_states(process: int) -> set[str]:
    stats = (task / "stat" for task in Path(f"/proc/{process}/task").iterdir())
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in stats}


def engine_process(file: Path) -> int:
    """The Lite process of this one that serves a file."""
    (found,) = [pid for pid, command in children_of(os.getpid()).items() if str(file) in command]
    return found


def test_a_killed_test_run_leaves_no_engine(engines: Engines, tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from engines import Engines\n"
        "from knowport.adapters.milvus import Engine\n"
        "started = Engines(Path(sys.argv[1]))\n"
        "for name in ('lite', 'milvus-2.3'): Engine.connect(started.uri(name))\n"
        "print('ready', flush=True); time.sleep(600)\n"
    )
    paths = [str(Path(schema.__file__).parents[3]), str(Path(__file__).parents[1])]
    run = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    assert len(processes_over(tmp_path)) == 3  # the run and its two engines

    run.kill()
    run.communicate()

    deadline = time.monotonic() + 120
    while processes_over(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_over(tmp_path) == set()


def processes_over(folder: Path) -> set[int]:
    """Processes that work in a folder or name it in their command line or environment."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue  # ended meanwhile
        if str(folder).encode() in told:
            found.add(int(process.name))
    return found
