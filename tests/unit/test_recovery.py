"""What an interruption left is finished at the start, and not what a living writer has at hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from knowport.adapters.ledger import SqlLedger
from knowport.adapters.ledger.failures import read_only
from knowport.core.chunking import ChunkingOptions
from knowport.core.compose import content_hash
from knowport.errors import EmbeddingUnavailable, EngineError
from knowport.model import Document, Generation, Matrix, PlannedWrite
from knowport.pipelines import replace as replacing
from knowport.pipelines.recovery import Recovery, recover
from knowport.pipelines.replace import Write, cut, marks, write_documents
from knowport.pipelines.vectors import Vectors
from knowport.ports import Embedder
from memory_index import MemoryIndex
from support import HashEmbedder, page

CHUNKING = ChunkingOptions(size=200)
G1 = Generation(
    name="g1",
    collection="biz_g1",
    embedder=HashEmbedder().identity,
    analyzer={},
    schema_version=1,
    lexical=True,
    proved_on="memory",
    created_at="2026-01-01T00:00:00+00:00",
)


class Away(HashEmbedder):
    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        raise EmbeddingUnavailable("The endpoint is away.")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite3'}"


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    ledger = SqlLedger(url, exclusive_seconds=0.2)
    ledger.save_generation(G1)
    ledger.activate("g1", activated_at=G1.created_at, forced=False)
    yield ledger
    ledger.close()


@pytest.fixture
def index() -> MemoryIndex:
    return MemoryIndex()


def document(name: str, word: str, chunks: int) -> Document:
    text = page(name, [f"{word} {name} {n}" for n in range(chunks)])
    made = Document(name, "kb", name, "", "default", text, "markdown", "")
    return replace(made, content_hash=content_hash(made))


def prepared(made: Document, ledger: SqlLedger) -> Write:
    whole = cut(made, CHUNKING)
    vectors = Vectors(HashEmbedder(), ledger)
    vectors.fill(dict(zip(whole.hashes, whole.texts, strict=True)), keys=whole.keys)
    return Write(made, whole.indexed(vectors.known))


def written(made: Document, ledger: SqlLedger, index: MemoryIndex) -> None:
    write_documents([prepared(made, ledger)], ledger, index, generation="g1")


def begun(made: Document, ledger: SqlLedger) -> None:
    write = prepared(made, ledger)
    ledger.begin_writes([PlannedWrite(made, marks(write.chunks))])


def recovered(ledger: SqlLedger, index: MemoryIndex, embedder: Embedder | None = None) -> Recovery:
    return recover(embedder or HashEmbedder(), ledger, index, CHUNKING, "g1")


def contents(index: MemoryIndex) -> dict[str, str]:
    return {row.id: row.content.splitlines()[-1] for row in index.iter_rows()}


def test_nothing_unfinished_asks_for_no_lock(ledger: SqlLedger, index: MemoryIndex) -> None:
    with ledger.exclusive():
        assert recovered(ledger, index) == Recovery()


def test_writing_is_finished_and_deleting_too(ledger: SqlLedger, index: MemoryIndex) -> None:
    written(document("a.md", "old", 3), ledger, index)
    written(document("b.md", "old", 2), ledger, index)
    written(document("c.md", "old", 1), ledger, index)
    begun(document("a.md", "new", 2), ledger)
    ledger.begin_delete("b.md")

    assert recovered(ledger, index) == Recovery(finished=2)

    assert contents(index) == {
        "a.md#chunk-0": "new a.md 0",
        "a.md#chunk-1": "new a.md 1",
        "c.md#chunk-0": "old c.md 0",
    }
    assert [(i.doc_id, i.state) for i in ledger.documents()] == [
        ("a.md", "indexed"),
        ("c.md", "indexed"),
    ]
    assert ledger.versions("b.md")[0].ended_by == "deleted"


def test_many_documents_are_finished_in_groups(ledger: SqlLedger, index: MemoryIndex) -> None:
    for n in range(120):
        begun(document(f"{n:03}.md", "new", 2), ledger)
    groups: list[int] = []

    def count(name: str, what: object) -> None:
        if name == "upsert" and isinstance(what, list):
            groups.append(len(set(what)))

    index.before = count
    assert recovered(ledger, index) == Recovery(finished=120)
    assert groups == [50, 50, 20]
    assert index.count() == 240


def test_a_living_writer_is_waited_for_and_its_documents_are_left_alone(
    ledger: SqlLedger, index: MemoryIndex, url: str
) -> None:
    begun(document("a.md", "new", 2), ledger)
    inside, go_on = threading.Event(), threading.Event()
    waiting = SqlLedger(url)

    def live() -> None:
        with ledger.exclusive():
            inside.set()
            go_on.wait(120)
            written(document("a.md", "newer", 1), ledger, index)

    writer = threading.Thread(target=live)
    writer.start()
    inside.wait(120)

    def upserts(name: str, what: object) -> None:
        assert threading.current_thread() is writer

    index.before = upserts
    timer = threading.Timer(0.1, go_on.set)
    timer.start()
    assert recovered(waiting, index) == Recovery(finished=1)
    writer.join()
    waiting.close()
    assert contents(index) == {"a.md#chunk-0": "newer a.md 0"}


def test_a_writer_that_is_busy_for_long_keeps_its_documents(
    ledger: SqlLedger, index: MemoryIndex
) -> None:
    begun(document("a.md", "new", 2), ledger)

    with ledger.exclusive():
        outcome = recovered(ledger, index)

    assert (outcome.finished, outcome.left) == (0, 1)
    assert "is held for writing" in outcome.reason
    assert recovered(ledger, index) == Recovery(finished=1)


def test_an_embedder_that_is_away_leaves_what_it_is_needed_for(
    ledger: SqlLedger, index: MemoryIndex
) -> None:
    made = document("a.md", "new", 2)
    ledger.begin_writes([PlannedWrite(made, marks(prepared(made, ledger).chunks))])
    other = Away(model="another")  # of which nothing is cached

    outcome = recovered(ledger, index, other)

    assert (outcome.finished, outcome.left) == (0, 1)
    assert "The endpoint is away." in outcome.reason
    assert recovered(ledger, index, Away()) == Recovery(finished=1)  # all of it is in the cache


def test_an_engine_that_fails_leaves_the_rest(ledger: SqlLedger, index: MemoryIndex) -> None:
    begun(document("a.md", "new", 2), ledger)

    def full(name: str, what: object) -> None:
        raise EngineError("The disk is full.")

    index.before = full
    outcome = recovered(ledger, index)

    assert (outcome.finished, outcome.left) == (0, 1)
    assert outcome.reason.startswith("The disk is full.")
    assert [info.state for info in ledger.documents()] == ["writing"]


def test_what_the_index_refuses_is_left_with_the_reason(
    ledger: SqlLedger, index: MemoryIndex
) -> None:
    begun(document("a.md", "new", 2), ledger)
    begun(document("b.md", "new", 2), ledger)
    index.refused = {"a.md"}

    assert recovered(ledger, index) == Recovery(1, 1, "a.md is too long.")
    assert [i.doc_id for i in ledger.unfinished()] == ["a.md"]


def test_another_generation_is_none_of_its_business(ledger: SqlLedger, index: MemoryIndex) -> None:
    begun(document("a.md", "new", 2), ledger)

    outcome = recover(HashEmbedder(), ledger, index, CHUNKING, "g0")

    assert (outcome.finished, outcome.left) == (0, 1)
    assert "g0 is not the active one" in outcome.reason
    assert index.count() == 0


def test_a_ledger_that_can_only_be_read_opens_all_the_same(
    ledger: SqlLedger, index: MemoryIndex, url: str, tmp_path: Path
) -> None:
    begun(document("a.md", "new", 2), ledger)
    ledger.close()
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "ledger.sqlite3").write_bytes((tmp_path / "ledger.sqlite3").read_bytes())

    class ReadOnly(SqlLedger):
        def exclusive(self):  # type: ignore[no-untyped-def]
            raise read_only("here")

    reader = ReadOnly(f"sqlite:///{folder / 'ledger.sqlite3'}")
    outcome = recovered(reader, index)
    reader.close()

    assert (outcome.finished, outcome.left) == (0, 1)
    assert "can be read only" in outcome.reason


class Stopped(Exception):
    pass


def stop() -> None:
    raise Stopped


def test_a_write_is_stopped_between_its_slices_and_not_after_the_last(
    ledger: SqlLedger, index: MemoryIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = (prepared(document(f"kb/{n}.md", "word", n), ledger) for n in (2, 5))
    monkeypatch.setattr(replacing, "SLICE_CHUNKS", len(small.chunks))

    write_documents([small], ledger, index, generation="g1", between_slices=stop)
    with pytest.raises(Stopped):
        write_documents([large], ledger, index, generation="g1", between_slices=stop)

    states = {info.doc_id: info.state for info in ledger.documents()}
    assert states == {"kb/2.md": "indexed", "kb/5.md": "writing"}
    assert len(index.rows) == 2 * len(small.chunks) < len(small.chunks) + len(large.chunks)
