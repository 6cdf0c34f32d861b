"""A rebuild step by step: what it does, what it refuses, and what is written meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.milvus import MilvusIndex
from knowport.model import EmbedderIdentity, IndexedChunk
from knowport.pipelines import rebuild_fill, replace
from knowport.pipelines.rebuild_ports import RebuildProgress
from rebuilds import (
    DOCUMENTS,
    Base,
    assert_answers,
    assert_clean,
    doc_id,
    refused,
    states,
    text_of,
)
from support import HashEmbedder, mark

SMALL = {"chunking": {"size": 300}}


# -- the way through ------------------------------------------------------------------------------


def test_a_rebuild_with_no_change_embeds_nothing(base: Base) -> None:
    embedder = HashEmbedder()
    with base.filled(embedder) as kb:
        before = {info.doc_id: info.chunk_count for info in kb.documents()}
        embedded, chunks = embedder.documents_embedded, sum(before.values())
        seen: list[RebuildProgress] = []

        report = kb.rebuild.run(on_progress=seen.append)

        build, verify, switch = report.build, report.verify, report.switch
        assert verify is not None
        assert switch is not None
        assert (build.documents, build.removed, build.chunks) == (DOCUMENTS, 0, chunks)
        assert (build.hits, build.misses, embedder.documents_embedded) == (chunks, 0, embedded)
        assert (verify.failures, verify.report["chunks"]) == ((), chunks)
        assert (switch.previous, switch.generation) == ("g1", build.generation)
        assert (switch.forced, switch.caught_up, switch.warning) == (False, 0, "")
        assert kb.status().generation == build.generation
        assert {info.doc_id: info.chunk_count for info in kb.documents()} == before
        assert states(kb) == ["previous", "active"]
        assert (seen[0].step, seen[0].done, seen[0].total) == ("build", 0, chunks)
        assert (seen[1].step, seen[1].done, seen[1].hits) == ("build", chunks, chunks)
        assert {now.step for now in seen} == {"build", "search"}
        assert kb.evidence(f"{doc_id(2)}#chunk-1").state == "current"
        assert_answers(kb, 3)
        assert_clean(kb)


def test_smaller_chunks_embed_only_new_texts(base: Base) -> None:
    embedder = HashEmbedder()
    with base.filled(embedder) as kb:
        kb.put("kb/short.md", "# Short\n\nshort enough for either size\n")
    with base.open(embedder, settings=SMALL) as kb:
        assert ["chunking.size was 600, is 300" in text for text in kb.warnings] == [True]
        kb.put("kb/more.md", text_of(50))  # cut as the active generation is
        wide = {info.doc_id: info.chunk_count for info in kb.documents()}
        assert wide["kb/more.md"] == wide[doc_id(0)]
        embedded = embedder.documents_embedded

        build = kb.rebuild.run().build

        narrow = {info.doc_id: info.chunk_count for info in kb.documents()}
        assert narrow["kb/short.md"] == wide["kb/short.md"] == 1
        assert all(narrow[name] > wide[name] for name in wide if name != "kb/short.md")
        assert build.chunks == sum(narrow.values())
        assert (build.hits, build.misses) == (1, build.chunks - 1)
        assert embedder.documents_embedded == embedded + build.misses
        assert kb.warnings == ()
        assert_clean(kb)


def test_old_keys_after_smaller_chunks_and_after_a_rollback(base: Base) -> None:
    with base.filled() as kb:
        key = f"{doc_id(0)}#chunk-1"
        cited = kb.chunk(key)[1].content
        count = kb.document(doc_id(0))[0].chunk_count
    with base.open(settings=SMALL) as kb:
        kb.rebuild.run()
        status = kb.evidence(key)
        assert (status.state, len(status.to)) == ("split", 2)
        for at, now in enumerate(status.to):
            assert mark("first", 0, 1, at) in cited
            assert mark("first", 0, 1, at) in kb.chunk(now)[1].content
        assert [m.generation for m in status.meanings] == ["g1", kb.status().generation]

        kb.rebuild.rollback()
        assert kb.chunk(key)[1].content == cited
        for number in range(count):
            status = kb.evidence(f"{doc_id(0)}#chunk-{number}", generation="g1")
            assert (status.state, status.to) == ("current", (f"{doc_id(0)}#chunk-{number}",))
        kb.delete(doc_id(0))
        assert kb.evidence(key).state == "deleted"
        assert kb.evidence("kb/never.md#chunk-0").state == "unknown"


def test_step_by_step(kb: KnowledgeBase) -> None:
    for step in (kb.rebuild.verify, kb.rebuild.activate, kb.rebuild.abort):
        refused(step, "No rebuild is under way", "knowport rebuild run")
    build = kb.rebuild.start()
    assert states(kb) == ["active", "built"]
    assert build.generation in kb.rebuild.status().next_step
    refused(kb.rebuild.start, build.generation, "is built", "knowport rebuild abort")
    assert kb.status().generation == "g1"
    assert kb.rebuild.verify().passed
    assert states(kb) == ["active", "verified"]
    switch = kb.rebuild.activate()
    assert (switch.previous, switch.generation) == ("g1", build.generation)
    stored = kb.rebuild.status().generations[1].generation
    assert (stored.report["passed"], stored.report["chunks"]) == (True, build.chunks)
    assert not stored.forced


def test_nothing_to_rebuild(base: Base) -> None:
    with base.open() as kb:
        refused(kb.rebuild.run, "no index", "knowport ingest")
        refused(kb.rebuild.rollback, "no generation to roll back to")
        assert kb.rebuild.status().generations == ()


def test_the_vectors_of_a_large_document_are_never_held_all_at_once(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.filled().close()
    monkeypatch.setattr(replace, "LARGE_DOCUMENT", 3)
    for module in (replace, rebuild_fill):
        monkeypatch.setattr(module, "SLICE_CHUNKS", 4)
    widths: list[int] = []
    cached, upsert = SqlLedger.cached_vectors, MilvusIndex.upsert_chunks

    def read(ledger: SqlLedger, identity: EmbedderIdentity, names: Sequence[str]) -> Any:
        widths.append(len(names))
        return cached(ledger, identity, names)

    def write(index: MilvusIndex, chunks: Sequence[IndexedChunk]) -> None:
        widths.append(len(chunks))
        upsert(index, chunks)

    with base.open(settings={"chunking": {"size": 300}}) as kb:
        monkeypatch.setattr(SqlLedger, "cached_vectors", read)
        monkeypatch.setattr(MilvusIndex, "upsert_chunks", write)
        built = kb.rebuild.start()
        assert max(widths) < 8
        assert built.chunks == built.hits + built.misses > 6 * 4
        assert kb.rebuild.verify(sample=3).passed
        kb.rebuild.activate()
        assert_clean(kb)


def test_stopped_and_gone_on_with(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild_fill, "GROUP_DOCUMENTS", 2)
    seen: list[RebuildProgress] = []
    chunks = kb.status().chunks

    report = kb.rebuild.run(
        on_progress=seen.append, should_stop=lambda: seen[-1].done >= chunks * 2 // DOCUMENTS
    )

    assert report.build.stopped
    assert (report.build.documents, report.verify, report.switch) == (2, None, None)
    assert states(kb) == ["active", "building"]
    assert kb.rebuild.status().generations[1].present == 2
    assert kb.rebuild.run().build.documents == DOCUMENTS - 2
    assert kb.status().chunks == chunks
    assert_clean(kb)


def test_asked_to_stop_before_the_switch(kb: KnowledgeBase) -> None:
    seen: list[RebuildProgress] = []
    report = kb.rebuild.run(on_progress=seen.append, should_stop=lambda: seen[-1].step == "search")
    assert report.verify is not None
    assert report.switch is None
    assert states(kb) == ["active", "verified"]
    assert kb.rebuild.activate().previous == "g1"


# -- what is written meanwhile --------------------------------------------------------------------


def change_everything(kb: KnowledgeBase) -> None:
    """One page changed, one longer, one shorter, one deleted, one new, one new and deleted."""
    kb.put(doc_id(0), text_of(0, "second"))
    kb.put(doc_id(1), text_of(1, "second", parts=9))
    kb.put(doc_id(2), text_of(2, "second", parts=1))
    kb.delete(doc_id(3))
    kb.put("kb/new.md", text_of(70))
    kb.put("kb/brief.md", text_of(71))
    kb.delete("kb/brief.md")


def assert_changed(kb: KnowledgeBase) -> None:
    for number in (0, 1, 2):
        assert_answers(kb, number, "second")
        stale = kb.lookup(mark("first", number, 0, 0))
        assert not any(mark("first", number, 0, 0) in e.excerpt for e in stale.evidence)
    assert_answers(kb, 4)
    assert kb.lookup(mark("first", 70, 0, 0)).evidence[0].document_id == "kb/new.md#chunk-0"
    ids = {info.doc_id for info in kb.documents()}
    assert ids == {doc_id(n) for n in (0, 1, 2, 4, 5)} | {"kb/new.md"}
    assert_clean(kb)


@pytest.mark.parametrize("when", ["built", "verified"])
def test_writes_before_the_switch_are_replayed(kb: KnowledgeBase, when: str) -> None:
    kb.rebuild.start()
    if when == "verified":
        assert kb.rebuild.verify().passed
    change_everything(kb)
    if when == "built":
        verified = kb.rebuild.verify()
        assert verified.passed, "what was changed meanwhile does not count"
        assert verified.report["changed_meanwhile"] == 4
    assert kb.rebuild.activate().caught_up == 5
    assert_changed(kb)


def test_writes_while_a_group_is_at_hand_are_seen(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its text was read and cut, and before it is written."""
    check, done = MilvusIndex.check, []

    def check_and_change(index: MilvusIndex, chunks: list) -> None:
        check(index, chunks)
        if index.collection != kb._parts.index.collection and not done:
            done.append(True)
            change_everything(kb)

    monkeypatch.setattr(MilvusIndex, "check", check_and_change)
    kb.rebuild.run()
    assert done
    assert_changed(kb)


def test_writes_after_the_switch_are_there_after_a_rollback(kb: KnowledgeBase) -> None:
    new = kb.rebuild.run().build.generation
    change_everything(kb)
    back = kb.rebuild.rollback()
    assert (back.previous, back.generation, back.caught_up) == (new, "g1", 5)
    assert_changed(kb)
    kb.put(doc_id(5), text_of(5, "second"))
    again = kb.rebuild.rollback()  # forth again
    assert (again.generation, again.caught_up) == (new, 1)
    assert_answers(kb, 5, "second")
    assert_changed(kb)


def test_back_to_a_generation_by_name(kb: KnowledgeBase) -> None:
    second = kb.rebuild.run().build.generation
    third = kb.rebuild.run().build.generation
    refused(lambda: kb.rebuild.rollback(third), f"no previous generation {third}")
    refused(lambda: kb.rebuild.rollback("g9"), "no previous generation g9")
    assert kb.rebuild.rollback("g1").previous == third
    assert kb.rebuild.rollback().generation == third, "the one that was active before"
    assert kb.rebuild.rollback(second).generation == second


# -- dropping -------------------------------------------------------------------------------------


def test_abort_and_drop(kb: KnowledgeBase, base: Base) -> None:
    name = kb.rebuild.start().generation
    refused(lambda: kb.rebuild.drop("g1"), "is the active one")
    assert kb.rebuild.abort() == name
    assert states(kb) == ["active"]
    new = kb.rebuild.run().build.generation
    assert new != name, "names are not used again"
    refused(kb.rebuild.abort, "No rebuild is under way")
    refused(lambda: kb.rebuild.drop("g9"), "no generation g9")
    assert kb.rebuild.drop("g1") == f"{base.prefix}_g1"
    assert states(kb) == ["active"]
    refused(kb.rebuild.rollback, "no generation to roll back to")
    assert_clean(kb)


def test_collections_that_the_ledger_does_not_know_are_told_of(
    kb: KnowledgeBase, base: Base
) -> None:
    stray = MilvusIndex(base.engine, f"{base.prefix}_g7_0a1b2c", dimension=2, lexical=False)
    other = MilvusIndex(base.engine, f"{base.prefix}_games", dimension=2, lexical=False)
    for index in (stray, other):
        index.create()
    assert kb.rebuild.status().unknown == (stray.collection,)
    kb.rebuild.run()
    assert stray.exists(), "never dropped by itself"
    refused(lambda: kb.rebuild.drop(other.collection), "no generation")
    refused(lambda: kb.rebuild.drop(f"{base.prefix}_g1"), "no generation")
    assert kb.rebuild.drop(stray.collection) == stray.collection
    assert kb.rebuild.status().unknown == ()
    assert other.exists()


def test_other_settings_than_it_was_begun_with(base: Base) -> None:
    with base.filled() as kb:
        kb.rebuild.start()
    with base.open(settings=SMALL) as kb:
        error = refused(kb.rebuild.run, "is built with other settings", "chunking.size was 600")
        assert "abort" in error.remedy
        kb.rebuild.abort()
        kb.rebuild.run(sample=5)
        assert kb.rebuild.status().differs == ()
