"""What goes wrong in a rebuild: it is said, the active generation answers, and ``run`` goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.milvus import MilvusIndex
from knowport.bootstrap import serving
from knowport.errors import (
    EmbeddingError,
    EmbeddingUnavailable,
    EngineError,
    EngineUnavailable,
    IndexMismatch,
    KnowportError,
    LedgerError,
)
from knowport.model import Matrix
from knowport.pipelines import rebuild_fill
from knowport.pipelines.rebuild_fill import Filler
from rebuilds import (
    DOCUMENTS,
    Base,
    Fails,
    assert_answers,
    assert_clean,
    doc_id,
    refused,
    states,
    text_of,
)
from support import HashEmbedder, mark

FULL = EngineError("Milvus failed on writing: no space left on device.")
AWAY = EngineUnavailable("Milvus cannot be reached.")
LEDGER_FULL = LedgerError("The ledger failed: database or disk is full.")


@pytest.mark.parametrize(
    ("owner", "method", "error", "call"),
    [
        (MilvusIndex, "create", FULL, 1),
        (MilvusIndex, "upsert_chunks", FULL, 1),
        (MilvusIndex, "upsert_chunks", FULL, 3),
        (MilvusIndex, "upsert_chunks", AWAY, 2),
        (MilvusIndex, "iter_rows", AWAY, 1),
        (MilvusIndex, "count", AWAY, 2),
        (SqlLedger, "store_built", LEDGER_FULL, 1),
        (SqlLedger, "store_built", LEDGER_FULL, 4),
        (SqlLedger, "save_generation", LEDGER_FULL, 1),
        (SqlLedger, "save_generation", LEDGER_FULL, 3),
        (SqlLedger, "activate", LEDGER_FULL, 1),
    ],
)
def test_a_full_disk_or_an_engine_that_is_away(
    kb: KnowledgeBase,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
    error: KnowportError,
    call: int,
) -> None:
    """Wherever it strikes; once there is room again, the same command goes on."""
    monkeypatch.setattr(rebuild_fill, "GROUP_DOCUMENTS", 2)
    with monkeypatch.context() as patch:
        Fails(owner, method, error, call).install(patch)
        with pytest.raises(type(error)) as caught:
            kb.rebuild.run(sample=3)
        assert caught.value is error
    assert kb.status().generation == "g1"
    assert_answers(kb, 1)
    kb.put(doc_id(0), text_of(0, "second"))
    kb.delete(doc_id(5))
    kb.rebuild.run(sample=3)
    assert states(kb) == ["previous", "active"]
    assert_answers(kb, 0, "second")
    assert_clean(kb)
    kb.rebuild.rollback()
    assert_clean(kb)


@pytest.mark.parametrize("method", ["drop", "exists"])
def test_a_drop_that_fails_is_finished_at_the_next_start(
    base: Base, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    with base.filled() as kb:
        kb.rebuild.start()
        with monkeypatch.context() as patch:
            Fails(MilvusIndex, method, AWAY, 1).install(patch)
            with pytest.raises(EngineUnavailable):
                kb.rebuild.abort()
        assert states(kb) == ["active", "dropping"]
        collection = kb.rebuild.status().generations[1].generation.collection
        refused(kb.rebuild.verify, "No rebuild is under way")
    with monkeypatch.context() as patch:
        Fails(MilvusIndex, "drop", AWAY, 1).install(patch)
        with base.open() as kb:
            assert ["tidied up" in warning for warning in kb.warnings] == [True]
            assert_answers(kb, 1)
    with base.open() as kb:
        assert (states(kb), kb.warnings) == (["active"], ())
        assert not base.engine.client.has_collection(collection)
        assert kb.rebuild.run(sample=3).switch is not None


class Refusing(HashEmbedder):
    """Fails for whatever holds a word, until it is healed."""

    def __init__(self, word: str, error: EmbeddingError) -> None:
        super().__init__(batch_size=4)
        self.word, self.error = word, error

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if self.word and any(self.word in text for text in texts):
            raise self.error
        return super().embed_documents(texts)


@pytest.mark.parametrize("error", [EmbeddingUnavailable("Away."), EmbeddingError("Too long.")])
def test_an_embedder_that_fails_for_one_batch(base: Base, error: EmbeddingError) -> None:
    with base.filled() as kb:
        assert_answers(kb, 0)
    embedder = Refusing(mark("first", 4, 2, 0), error)
    with base.open(embedder, settings={"chunking": {"size": 300}}) as kb:
        for _ in range(2):  # for ever
            with pytest.raises(type(error)) as caught:
                kb.rebuild.run(sample=3)
            assert f"{doc_id(4)}#chunk-" in caught.value.message
            assert "knowport rebuild run" in caught.value.remedy
            assert_answers(kb, 4)
        assert states(kb) == ["active", "building"]
        before = embedder.documents_embedded
        embedder.word = ""
        build = kb.rebuild.run(sample=3).build
        assert build.hits == before, "what was embedded until the failure is not embedded again"
        assert_clean(kb)


def test_a_document_that_the_new_generation_cannot_take(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knowport.errors import InvalidInput

    too_long = InvalidInput("Field content of chunk 'x' is too long.", field="content")
    with monkeypatch.context() as patch:
        Fails(MilvusIndex, "check", too_long, 2).install(patch)
        refused(lambda: kb.rebuild.run(sample=3), "cannot take a document", "chunk 'x'")
    assert states(kb) == ["active", "building"]
    kb.rebuild.run(sample=3)


# -- collections that are gone --------------------------------------------------------------------


def collection_of(kb: KnowledgeBase, place: int) -> MilvusIndex:
    return kb._parts.generations.index_of(kb.rebuild.status().generations[place].generation)


@pytest.mark.parametrize("verified", [False, True])
def test_a_new_collection_that_was_dropped_by_hand_is_made_again(
    kb: KnowledgeBase, verified: bool
) -> None:
    kb.rebuild.start()
    if verified:
        kb.rebuild.verify(sample=3)
    collection_of(kb, 1).drop()
    assert kb.rebuild.status().generations[1].lost
    refused(lambda: kb.rebuild.activate(force=True), "is gone", "knowport rebuild run")
    if not verified:
        refused(kb.rebuild.verify, "is gone")
    assert kb.rebuild.run(sample=3).build.documents == DOCUMENTS
    assert_clean(kb)


def test_a_previous_collection_that_was_dropped_by_hand(kb: KnowledgeBase) -> None:
    kb.rebuild.run(sample=3)
    collection_of(kb, 0).drop()
    error = refused(kb.rebuild.rollback, "is gone")
    assert "knowport rebuild drop g1" in error.remedy
    kb.rebuild.drop("g1")
    assert_answers(kb, 1)


def test_a_damaged_previous_collection_is_not_gone_back_to(kb: KnowledgeBase) -> None:
    new = kb.rebuild.run(sample=3).build.generation
    collection_of(kb, 0).delete_by_doc_id(doc_id(2))
    refused(kb.rebuild.rollback, "holds", "were built", "drop g1")
    assert kb.status().generation == new
    kb.put(doc_id(2), text_of(2, "second"))  # catching up writes it again
    kb.rebuild.rollback()
    assert_clean(kb)


def test_the_active_collection_that_was_dropped_by_hand_is_built_from_the_ledger(
    base: Base,
) -> None:
    embedder = HashEmbedder()
    with base.filled(embedder) as kb:
        embedded = embedder.documents_embedded
        collection_of(kb, 0).drop()
        with pytest.raises(EngineError):  # never an empty answer
            kb.lookup(mark("first", 1, 0, 0))
    with pytest.raises(IndexMismatch) as caught:
        base.open(embedder)
    assert f"{base.prefix}_g1" in caught.value.message
    assert "knowport rebuild run" in caught.value.remedy
    with base.open(embedder, lost_ok=True) as kb:
        status = kb.rebuild.status()
        assert status.generations[0].lost
        assert "is gone" in status.next_step
        run = kb.rebuild.run(sample=3)
        assert (run.build.misses, embedder.documents_embedded) == (0, embedded)
        assert run.verify is not None
        assert run.verify.report["against"] == ""
        refused(kb.rebuild.rollback, "is gone")
    with base.open(embedder) as kb:
        assert_clean(kb)
        assert_answers(kb, 1)


# -- two at once ----------------------------------------------------------------------------------


def test_two_rebuilds_at_once(kb: KnowledgeBase, base: Base) -> None:
    """The second command is refused while the first is at work, in this and another process's
    knowledge base; and afterwards too, as long as a generation waits."""
    with base.open() as other:
        inside: list[str] = []

        def look(_: object) -> None:
            if not inside:
                for step in (other.rebuild.start, other.rebuild.run, other.rebuild.abort):
                    inside.append(refused(step, "Another rebuild command").code)

        kb.rebuild.start(on_progress=look)
        assert inside == ["rebuild"] * 3
        refused(other.rebuild.start, "A rebuild is under way")
        assert other.rebuild.run(sample=3).switch is not None
        assert kb._parts.follow().name == other.status().generation


def test_two_rebuilds_at_once_on_two_hosts(base: Base, tmp_path: Path) -> None:
    """Two homes over one ledger and one engine."""
    ledger = {"ledger": {"url": f"sqlite:///{tmp_path / 'shared.sqlite3'}"}}
    with base.open(settings=ledger) as kb:
        kb.ingest(base.pages, source="kb")
        base.home = tmp_path / "other home"
        with base.open(settings=ledger) as other:
            inside: list[str] = []

            def look(_: object) -> None:
                if not inside:
                    inside.append(refused(other.rebuild.run, "Another rebuild command").code)

            kb.rebuild.run(sample=3, on_progress=look)
            assert inside == ["rebuild"]
            assert states(other) == ["previous", "active"]


def test_a_rebuild_that_another_host_aborts(kb: KnowledgeBase, base: Base) -> None:
    """Another home, so another lock, but the same ledger."""
    from knowport.pipelines.rebuild_states import drop

    dropped: list[str] = []

    def abort(_: object) -> None:
        under_way = [g for g in kb._parts.ledger.generations() if g.state == "building"]
        if under_way and not dropped:
            dropped.append(under_way[0].name)
            drop(under_way[0], kb._parts.ledger, kb._parts.generations.index_of(under_way[0]))

    refused(lambda: kb.rebuild.run(on_progress=abort), "was building and is gone now")
    assert states(kb) == ["active"]
    assert_clean(kb)


class Watched(HashEmbedder):
    """Counts the texts that are embedded while ``held`` says that writers wait."""

    def __init__(self) -> None:
        super().__init__(batch_size=4)
        self.held = False
        self.while_held = 0

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        self.while_held += len(texts) if self.held else 0
        return super().embed_documents(texts)


@pytest.mark.parametrize(("times", "while_held"), [(3, 0), (1_000, 1)])
def test_writers_do_not_wait_for_the_vectors_of_what_came_in_last(
    base: Base, monkeypatch: pytest.MonkeyPatch, times: int, while_held: int
) -> None:
    """A large document comes in just before the switch becomes the only writer, again and again;
    where that never ends, it is waited for in the end."""
    base.filled().close()
    embedder = Watched()
    with base.open(embedder, settings={"chunking": {"size": 300}}) as kb:
        kb.rebuild.start()
        kb.rebuild.verify(sample=3)
        exclusive, fill, came = SqlLedger.exclusive, Filler.fill, []

        @contextmanager
        def watched(ledger: SqlLedger) -> Iterator[None]:
            with exclusive(ledger):
                embedder.held = True
                try:
                    yield
                finally:
                    embedder.held = False

        def filled(filler: Filler, **more: Any) -> bool:
            stopped = fill(filler, **more)
            if len(came) < times:
                came.append(kb.put("kb/late.md", text_of(len(came) + 90, parts=8)))
            return stopped

        monkeypatch.setattr(SqlLedger, "exclusive", watched)
        monkeypatch.setattr(Filler, "fill", filled)
        switched = kb.rebuild.activate()

        assert len(came) == min(times, rebuild_fill.MOST_PASSES)
        assert switched.caught_up == len(came)
        assert bool(embedder.while_held) == bool(while_held)
        assert_clean(kb)
        assert f"page {len(came) + 89}" in kb.document("kb/late.md")[1].text.lower()


def test_writers_do_not_wait_for_the_build_nor_for_many_deletions(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last few of what is caught up with is done while they wait."""
    with base.filled() as kb:
        for number in range(DOCUMENTS, 30):
            kb.put(doc_id(number), text_of(number))
        held: list[bool] = []
        written: list[bool] = []
        removed: list[bool] = []
        exclusive, fill = SqlLedger.exclusive, Filler.fill
        upsert, delete = MilvusIndex.upsert_chunks, MilvusIndex.delete_by_doc_id

        @contextmanager
        def watched(ledger: SqlLedger) -> Iterator[None]:
            with exclusive(ledger):
                held.append(True)
                try:
                    yield
                finally:
                    held.pop()

        def filled(filler: Filler, **more: Any) -> bool:
            stopped = fill(filler, **more)
            for number in gone:
                kb.delete(doc_id(number))
            gone.clear()
            return stopped

        def noting(call: Any, notes: list[bool]) -> Any:
            def noted(index: MilvusIndex, *args: Any, **more: Any) -> Any:
                if "_g2_" in index.collection:
                    notes.append(bool(held))
                return call(index, *args, **more)

            return noted

        gone = list(range(DOCUMENTS, 30))
        monkeypatch.setattr(SqlLedger, "exclusive", watched)
        monkeypatch.setattr(Filler, "fill", filled)
        monkeypatch.setattr(MilvusIndex, "upsert_chunks", noting(upsert, written))
        monkeypatch.setattr(MilvusIndex, "delete_by_doc_id", noting(delete, removed))
        monkeypatch.setattr(rebuild_fill, "SHORT_WAIT", 3)
        kb.rebuild.start()
        assert (len(written), any(written)) == (1, False)
        kb.rebuild.verify(sample=3)
        gone = [0, 1, 2, 3, 4]

        assert kb.rebuild.activate().caught_up == 24 + 5

        assert (len(removed), any(removed)) == (24 + 5, False)
        assert_clean(kb)


def test_groups_are_as_large_as_the_new_generation_makes_them(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.filled().close()
    monkeypatch.setattr(rebuild_fill, "GROUP_CHUNKS", 15)
    sizes: list[int] = []
    write = Filler._write

    def noted(filler: Filler, writes: Sequence[Any]) -> None:
        sizes.append(sum(len(one.chunks) for one in writes))
        write(filler, writes)

    monkeypatch.setattr(Filler, "_write", noted)
    with base.open(settings={"chunking": {"size": 100}}) as kb:
        built = kb.rebuild.start()
        per_document = built.chunks // DOCUMENTS
        assert per_document > 15
        assert sizes == [per_document] * DOCUMENTS


# -- documents whose writing or deletion was interrupted -------------------------------------------


def interrupted_delete(kb: KnowledgeBase, name: str, owner: type, method: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Fails(owner, method, LEDGER_FULL, 1).install(patch)
        with pytest.raises(LedgerError):
            kb.delete(name)


@pytest.mark.parametrize(
    ("owner", "method"), [(SqlLedger, "commit_delete"), (MilvusIndex, "delete_by_doc_id")]
)
def test_an_interrupted_deletion_does_not_hinder_a_switch_or_a_rollback(
    base: Base, owner: type, method: str
) -> None:
    """Whether its rows are gone already or not."""
    with base.filled() as kb:
        interrupted_delete(kb, doc_id(5), owner, method)
        new = kb.rebuild.run(sample=3).build.generation
        assert kb.rebuild.rollback().generation == "g1"
        assert kb.rebuild.rollback().generation == new
    with base.open() as kb:
        assert doc_id(5) not in {info.doc_id for info in kb.documents()}
        assert_clean(kb)


def test_a_half_written_document_that_is_then_half_deleted(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it is in the new generation when its deletion begins, and does not end."""
    with base.filled() as kb:
        with monkeypatch.context() as patch:
            Fails(SqlLedger, "store_built", LEDGER_FULL, 2).install(patch)
            with pytest.raises(LedgerError):
                kb.rebuild.start()
        interrupted_delete(kb, doc_id(5), SqlLedger, "commit_delete")
        assert kb.rebuild.run(sample=3).switch is not None
    with base.open() as kb:
        assert len(kb.documents()) == DOCUMENTS - 1
        assert_clean(kb)


def test_a_ledger_that_cannot_be_tidied_up_does_not_undo_the_switch(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        Fails(SqlLedger, "tidy_up", LEDGER_FULL, 1).install(patch)
        switched = kb.rebuild.run(sample=3).switch
    assert switched is not None
    assert "could not be tidied up" in switched.warning
    assert kb.status().generation == switched.generation
    kb.rebuild.rollback()
    assert_clean(kb)


def test_a_reader_elsewhere_does_not_miss_that_its_generation_was_dropped(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows a switch within a second, and the old generation may be dropped before that."""
    monkeypatch.setattr(serving, "FRESH_SECONDS", 1_000)
    base.filled().close()
    with base.open() as kb, base.open() as other:
        assert_answers(other, 1)
        new = kb.rebuild.run(sample=3).build.generation
        assert other.lookup(mark("first", 1, 0, 0)).generation == "g1"
        for dropped, call in (
            ("g1", lambda: other.lookup(mark("first", 1, 0, 0)).generation),
            (new, lambda: other.status().generation),
            (None, lambda: other.explain(mark("first", 1, 0, 0)).result.generation),
        ):
            before = kb.status().generation if dropped is None else dropped
            if dropped != "g1":
                kb.rebuild.run(sample=3)
            kb.rebuild.drop(before)
            assert call() == kb.status().generation


def test_a_failure_of_the_engine_is_told_as_it_is(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the ledger then fails too, of which the caller would make less."""
    collection_of(kb, 0).drop()
    with pytest.raises(EngineError, match="collection not found"):
        kb.lookup("anything")
    Fails(SqlLedger, "active_generation", LEDGER_FULL, 1).install(monkeypatch)
    with pytest.raises(EngineError, match="collection not found"):
        kb.lookup("anything")


def test_writers_wait_for_the_switch_and_go_to_the_new_generation(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate = SqlLedger.activate
    waiting = threading.Event()
    done: list[str] = []

    def put() -> None:
        waiting.set()
        kb.put("kb/late.md", text_of(90))
        done.append(kb.status().generation)

    writer = threading.Thread(target=put)

    def slowly(ledger: SqlLedger, name: str, **more: Any) -> None:
        writer.start()
        assert waiting.wait(120)
        writer.join(0.3)
        assert not done, "the writer waits for the switch"
        activate(ledger, name, **more)

    monkeypatch.setattr(SqlLedger, "activate", slowly)
    new = kb.rebuild.run(sample=3).build.generation
    writer.join(120)
    assert done == [new]
    assert kb.document("kb/late.md")[0].chunk_count > 0
    assert_clean(kb)
