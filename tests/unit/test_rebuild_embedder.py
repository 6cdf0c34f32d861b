"""Another embedder, analyzer or schema than the index was built with: the old generation answers
read-only until a rebuild; nothing is dropped by itself."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from knowport import KnowledgeBase
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.milvus import MilvusIndex
from knowport.bootstrap import generations
from knowport.core.chunking import CHUNKER_VERSION
from knowport.errors import EngineError, IndexMismatch
from knowport.model import Generation
from knowport.settings import load_settings
from rebuilds import DOCUMENTS, Base, Fails, assert_answers, assert_clean, doc_id, text_of
from stub_embeddings import StubEmbeddings
from support import HashEmbedder, mark

OLD, NEW = HashEmbedder(model="old"), HashEmbedder(model="new")


def assert_read_only(kb: KnowledgeBase, base: Base, *words: str) -> None:
    held = kb.documents()
    for write in (
        lambda: kb.put("kb/x.md", text_of(60)),
        lambda: kb.delete(doc_id(0)),
        lambda: kb.ingest(base.pages, source="other"),
    ):
        with pytest.raises(IndexMismatch) as caught:
            write()
        assert "knowport rebuild run" in caught.value.remedy
        assert all(word in caught.value.message for word in words)
    assert kb.documents() == held
    assert any(all(word in warning for word in words) for warning in kb.warnings)
    answer = kb.lookup(mark("first", 1, 0, 0))
    assert [notice.code for notice in answer.notices] == ["index_differs"]
    assert all(word in answer.notices[0].message for word in words)
    assert answer.evidence[0].document_id == f"{doc_id(1)}#chunk-0"


def test_the_old_index_answers_read_only_until_it_is_rebuilt(base: Base) -> None:
    with base.filled(OLD) as kb:
        count = kb.status().chunks
    with base.open(NEW, other_embedders=[OLD]) as kb:
        assert kb.status().embedder == OLD.identity
        assert_read_only(kb, base, "hash old (64 numbers)", "hash new (64 numbers)")
        assert kb.rebuild.status().differs == (
            "the embedder was hash old (64 numbers), is hash new (64 numbers)",
        )
        build = kb.rebuild.run(sample=3).build
        assert (build.hits, build.misses) == (0, count), "vectors of another embedder are no use"
        assert kb.status().embedder == NEW.identity
        assert kb.warnings == ()
        assert kb.lookup(mark("first", 1, 0, 0)).notices == ()
        kb.put("kb/x.md", text_of(60))
        assert_clean(kb)

        kb.rebuild.rollback()
        assert_read_only(kb, base, "hash old", "hash new")
        assert kb.status().documents == DOCUMENTS + 1, "and what was put since is there"
        kb.rebuild.rollback()
        assert_clean(kb)


def test_an_embedder_that_is_not_at_hand(base: Base) -> None:
    with base.filled(OLD):
        pass
    with pytest.raises(IndexMismatch) as caught:
        base.open(NEW)
    assert "hash old (64 numbers)" in caught.value.message
    assert "hash new (64 numbers)" in caught.value.message
    assert "rebuild" in caught.value.remedy
    with base.open(NEW, other_embedders=[OLD]) as kb:
        kb.rebuild.run(sample=3)
    with base.open(NEW) as kb:
        assert_answers(kb, 2)
        with pytest.raises(IndexMismatch):
            kb.rebuild.rollback()
        assert_answers(kb, 2)


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [("SCHEMA_VERSION", 2, "the schema was 1, is 2"), ("ANALYZER", {"tokenizer": "x"}, "analyzer")],
)
def test_another_schema_or_analyzer(
    base: Base, monkeypatch: pytest.MonkeyPatch, name: str, value: object, word: str
) -> None:
    with base.filled():
        pass
    monkeypatch.setattr(generations, name, value)
    with base.open() as kb:
        assert_read_only(kb, base, word)
        kb.rebuild.run(sample=3)
        assert kb.warnings == ()
        assert_clean(kb)


def test_an_unfinished_document_of_a_read_only_index_is_whole_in_the_new_one(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    with base.filled() as kb:
        kb._parts.ledger.reopen_writes([doc_id(1)])
    monkeypatch.setattr(generations, "SCHEMA_VERSION", 2)
    with base.open() as kb:
        assert kb.status().unfinished == 1
        kb.rebuild.run(sample=3)
        assert_clean(kb)


def test_what_an_older_knowport_did_not_record_is_taken_from_the_settings(base: Base) -> None:
    with base.filled() as kb:
        ledger = kb._parts.ledger
        [stored] = ledger.generations()
        ledger.save_generation(replace(stored, chunking={}, proved_on="another engine"))
    with base.open(settings={"chunking": {"size": 300}}) as kb:
        [adopted] = kb._parts.ledger.generations()
        assert adopted.chunking == {"size": 300, "overlap": 0, "version": CHUNKER_VERSION}
        assert (adopted.proved_on, adopted.state) == (stored.proved_on, "active")
        assert kb.warnings == ()
    with base.open() as kb:
        assert ["chunking.size was 300, is 600" in warning for warning in kb.warnings] == [True]


def test_chunks_that_an_older_knowport_did_not_remember_do_not_hinder_a_rollback(
    base: Base,
) -> None:
    with base.filled() as kb:
        chunks = kb.status().chunks
    with closing(sqlite3.connect(base.home / "ledger.sqlite3")) as ledger:
        for table in ("documents", "versions"):
            ledger.execute(f"UPDATE {table} SET marks = x''")
        ledger.commit()
    with base.open() as kb:
        key = f"{doc_id(0)}#chunk-1"
        assert kb.evidence(key).state == "unknown"
        new = kb.rebuild.run(sample=3).build.generation
        assert_clean(kb)
        assert kb.evidence(key).state == "unknown", "what it was cited for is not known"
        assert kb.evidence(key, generation=new).state == "current"
        assert kb.rebuild.rollback().generation == "g1"
        assert kb.status().chunks == chunks
        assert_answers(kb, 1)


def test_two_that_make_the_first_generation_at_once(base: Base) -> None:
    with base.open() as one, base.open() as other, ThreadPoolExecutor(2) as pool:
        done = [
            pool.submit(kb.put, f"kb/{name}.md", text_of(number))
            for number, (name, kb) in enumerate({"a": one, "b": other}.items())
        ]
        assert [str(task.result().outcome) for task in done] == ["indexed"] * 2
        assert [g.name for g in one._parts.ledger.generations()] == ["g1"]
        assert [info.doc_id for info in other.documents()] == ["kb/a.md", "kb/b.md"]
        assert_clean(one)


# -- endpoints ------------------------------------------------------------------------------------


def at_endpoint(base: Base, stub: StubEmbeddings, **embedding: str) -> KnowledgeBase:
    values = {"provider": "openai", "base_url": stub.base_url, "dimensions": 3, "max_retries": 0}
    return KnowledgeBase(
        settings=load_settings(
            {
                "home": base.home,
                "milvus": {"uri": base.uri, "collection": base.prefix},
                "embedding": {**values, **embedding},
            }
        )
    )


def last(stub: StubEmbeddings) -> tuple[str, str]:
    """Model and key of the last request."""
    key = stub.headers[-1].get("authorization", "").removeprefix("Bearer ")
    return stub.requests[-1]["model"], key


def test_each_endpoint_gets_its_own_key_and_never_the_others(base: Base) -> None:
    """From one endpoint to another, while a process with the old settings goes on serving."""
    with StubEmbeddings() as one, StubEmbeddings() as two:
        with at_endpoint(base, one, model="m", api_key="of-one") as kb:
            kb.ingest(base.pages, source="kb")
        old = at_endpoint(base, one, model="m", api_key="of-one", other_api_key="of-two")
        new = at_endpoint(base, two, model="n", api_key="of-two", other_api_key="of-one")
        with old, new:
            new.lookup("before")
            assert last(one) == ("m", "of-one")
            assert two.requests == []
            build = new.rebuild.run(sample=1).build
            assert build.hits == 0
            assert last(two) == ("n", "of-two")
            new.lookup("after")
            assert last(two) == ("n", "of-two")

            asked = len(one.requests)
            assert old._parts.follow().name == build.generation
            old.lookup("after")
            assert (last(two), len(one.requests)) == (("n", "of-two"), asked)
        with at_endpoint(base, one, model="m", api_key="of-one") as kb:
            kb.lookup("without the other key")
            model, key = last(two)
            assert model == "n"
            assert "of-one" not in key
        stored = json.dumps([dict(g.embedding) for g in kb_generations(base)])
        assert "of-" not in stored
        assert two.base_url in stored


def kb_generations(base: Base) -> tuple[Generation, ...]:
    ledger = SqlLedger(f"sqlite:///{base.home / 'ledger.sqlite3'}")
    try:
        return ledger.generations()
    finally:
        ledger.close()


@pytest.mark.parametrize(
    ("owner", "method"), [(MilvusIndex, "delete_by_doc_id"), (SqlLedger, "commit_delete")]
)
def test_an_interrupted_deletion_of_a_read_only_index_is_finished_by_the_switch(
    base: Base, owner: type, method: str
) -> None:
    """Without a restart; until then the document is there, or half there, as before."""
    old = HashEmbedder()
    with base.filled(old) as kb, pytest.MonkeyPatch.context() as patch:
        Fails(owner, method, EngineError("Away."), 1).install(patch)
        with pytest.raises(EngineError):
            kb.delete(doc_id(5))
    with base.open(HashEmbedder(model="other"), other_embedders=[old]) as kb:
        assert kb.status().unfinished == 1
        assert kb.rebuild.run(sample=3).switch is not None
        assert doc_id(5) not in {info.doc_id for info in kb.documents()}
        assert_clean(kb)
