"""The stages of an ingest by themselves: channels, room, staging, retries, watching."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from knowport.adapters.ledger import SqlLedger
from knowport.core.chunking import ChunkingOptions
from knowport.errors import (
    ConfigurationError,
    EmbeddingError,
    EngineError,
    EngineUnavailable,
    GenerationChanged,
    InvalidInput,
    KnowportError,
    LedgerBusy,
)
from knowport.model import Document, FileOutcome, FileResult, IngestReport, Matrix
from knowport.pipelines.flow import Channel, Closed, Room
from knowport.pipelines.opening import Opened, Settled
from knowport.pipelines.replace import LARGE_DOCUMENT, CachedChunks, Write, cut, slices
from knowport.pipelines.retry import RETRIES, with_retries
from knowport.pipelines.staging import PART_TEXTS, Staging
from knowport.pipelines.watch import RETRY_SECONDS, keep_in_sync
from support import HashEmbedder, page

# -- channels and room ----------------------------------------------------------------------------


def test_a_channel_keeps_order_and_waits_for_room() -> None:
    channel: Channel[int] = Channel(2)
    taken: list[int] = []

    def produce() -> None:
        for number in range(50):
            channel.put(number)
            assert len(channel._items) <= 2
        channel.end()

    with ThreadPoolExecutor(1) as threads:
        producer = threads.submit(produce)
        while items := channel.take(timeout=120):
            taken += items
        producer.result(timeout=120)
    assert taken == list(range(50))


def test_a_channel_waits_until_there_is_enough_but_not_for_ever() -> None:
    channel: Channel[str] = Channel(10)
    assert channel.take(timeout=0.01) is None
    channel.put("a")
    assert channel.take(5, timeout=0.01) == ["a"]
    channel.put("b")
    channel.end()
    assert channel.take(5) == ["b"]
    assert channel.take(5) == []


def test_a_closed_channel_takes_nothing_and_lets_nobody_wait() -> None:
    channel: Channel[int] = Channel(1)
    channel.put(1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(channel.put, 2)
        channel.close()
        with pytest.raises(Closed):
            waiting.result(timeout=120)
    channel.pause(600)  # at once


def test_room_is_bounded_and_what_is_larger_has_it_alone() -> None:
    room = Room(10)
    room.take(6)
    room.take(4)
    with ThreadPoolExecutor(1) as threads:
        large = threads.submit(room.take, 25)
        room.give_back(4)
        assert not large.done()
        room.give_back(6)
        large.result(timeout=120)
        small = threads.submit(room.take, 1)
        assert not small.done()
        room.close()
        with pytest.raises(Closed):
            small.result(timeout=120)


# -- staging --------------------------------------------------------------------------------------


class Batches(HashEmbedder):
    """Remembers how many texts each call had; refuses texts that hold one of the words."""

    def __init__(self, batch_size: int, refused: Sequence[str] = ()) -> None:
        super().__init__(batch_size=batch_size)
        self.calls: list[int] = []
        self.refused = refused

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        for position, text in enumerate(texts):
            if any(word in text for word in self.refused):
                raise EmbeddingError("The model refuses it.", position=position)
        self.calls.append(len(texts))
        return super().embed_documents(texts)


@pytest.fixture
def ledger(tmp_path: Path) -> SqlLedger:
    return SqlLedger(f"sqlite:///{tmp_path / 'ledger.db'}")


def opened(name: str, parts: Sequence[str]) -> Opened:
    document = Document(
        doc_id=f"kb/{name}",
        source="kb",
        title=name,
        category="",
        kb_scope="default",
        text=page(name, parts),
        text_format="markdown",
        content_hash=name,
    )
    return Opened(name, cut(document, ChunkingOptions()), "new", "", 1)


def settled(name: str) -> Settled:
    return Settled(FileResult(name, FileOutcome.UNCHANGED))


def drained(staging: Staging, items: Sequence[Opened | Settled]) -> list[str]:
    """Embed all of the items; the paths in the order in which they became ready."""
    ready = []
    for _ in staging.add(items):
        while staging.todo >= staging.batch_size:
            staging.embed()
            ready += [staged.item.path for staged in staging.ready()]
    while staging.todo:
        staging.embed()
        ready += [staged.item.path for staged in staging.ready()]
    return ready + [staged.item.path for staged in staging.ready()]


def test_batches_are_full_across_documents_and_the_order_is_kept(ledger: SqlLedger) -> None:
    embedder = Batches(8)
    staging = Staging(embedder, ledger)
    sizes = [3, 1, 7, 12, 2, 5]
    items: list[Opened | Settled] = [
        opened(f"d{n}", [f"text {n} {part}" for part in range(size)])
        for n, size in enumerate(sizes)
    ]
    items.insert(2, settled("same"))
    assert drained(staging, items) == ["d0", "d1", "same", "d2", "d3", "d4", "d5"]
    assert embedder.calls == [8, 8, 8, 6]
    assert staging.embedded == sum(sizes)


def test_a_document_leaves_with_all_of_its_vectors(ledger: SqlLedger) -> None:
    staging = Staging(HashEmbedder(batch_size=2), ledger)
    item = opened("d", ["one", "two", "three"])
    for _ in staging.add([item]):
        staging.embed()
        assert list(staging.ready()) == []
        staging.embed()
    (staged,) = staging.ready()
    assert list(staged.vectors) == list(item.cut.hashes)
    indexed = item.cut.indexed(staged.vectors)
    expected = HashEmbedder().embed_documents(item.cut.texts)
    assert [chunk.vector.tolist() for chunk in indexed] == expected.tolist()


def test_texts_that_are_known_or_asked_for_already_are_not_embedded(ledger: SqlLedger) -> None:
    first = Batches(100)
    drained(Staging(first, ledger), [opened("d", ["one", "two"])])
    assert first.calls == [2]
    again = Batches(100)
    staging = Staging(again, ledger)
    assert drained(staging, [opened("d", ["one", "two"]), settled("x")]) == ["d", "x"]
    assert again.calls == []
    # Twice in one document, and in two documents of which the first waits still.
    same = opened("e", ["same text"])
    twins = [replace(same, path="e"), replace(same, path="f")]
    assert drained(staging, twins) == ["e", "f"]
    assert again.calls == [1]
    assert staging.embedded == 1


def test_a_refused_text_fails_its_documents_and_no_other(ledger: SqlLedger) -> None:
    embedder = Batches(4, refused=["poison"])
    staging = Staging(embedder, ledger)
    bad = opened("bad", ["fine before", "poison", "fine after"])
    items = [opened("a", ["alpha"]), bad, opened("z", ["last", "fine too"])]
    ready = {}
    for _ in staging.add(items):
        while staging.todo:
            staging.embed()
    for staged in staging.ready():
        ready[staged.item.path] = staged
    assert list(ready) == ["a", "bad", "z"]
    failure = ready["bad"].failed
    assert failure is not None
    assert (failure.outcome, failure.reason) == ("failed", "embedding")
    assert failure.detail.startswith("kb/bad#chunk-1: The model refuses it.")
    assert ready["a"].failed is None
    assert ready["z"].failed is None
    # What only the failed document needed is not embedded any more.
    assert staging.embedded == sum(embedder.calls) == 3


def test_a_failure_of_a_whole_batch_is_raised_and_names_the_place(ledger: SqlLedger) -> None:
    class Away(HashEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Matrix:
            raise EmbeddingError("The endpoint is gone.")

    staging = Staging(Away(), ledger)
    with pytest.raises(EmbeddingError, match=r"^In the batch from kb/d#chunk-0: The endpoint"):
        drained(staging, [opened("d", ["one"])])


def test_vectors_of_a_large_document_wait_in_the_cache(ledger: SqlLedger) -> None:
    embedder = Batches(64)
    staging = Staging(embedder, ledger)
    count = LARGE_DOCUMENT + 123
    large = opened("large", [f"text {n}" for n in range(count)])
    assert len(large.cut.chunks) == count
    waiting = 0
    for _ in staging.add([large, opened("small", ["x"])]):
        waiting = max(waiting, staging.todo)
        while staging.todo >= 64:
            staging.embed()
    assert waiting < PART_TEXTS + 64
    staging.embed()
    first, second = staging.ready()
    assert first.vectors == {}
    assert len(second.vectors) == 1
    assert set(embedder.calls[:-1]) == {64}

    asked: list[int] = []

    def fetch(names: Sequence[str]) -> object:
        asked.append(len(names))
        return ledger.cached_vectors(embedder.identity, names)

    chunks = CachedChunks(large.cut, fetch)  # type: ignore[arg-type]
    assert len(chunks) == count
    assert chunks[count - 1].chunk.content.endswith(f"text {count - 1}")
    assert asked == [1]
    sizes = [len(part) for part in slices([Write(large.cut.document, chunks)])]
    assert sizes == [500, 500, 500, 500, 123]
    assert max(asked) == 500
    written = [chunk.chunk.chunk_index for part in slices([Write(large.cut.document, chunks)])
               for chunk in part]  # fmt: skip
    assert written == list(range(count))


def test_slices_are_filled_across_documents() -> None:
    embedder = HashEmbedder()
    writes = []
    for n, size in enumerate([3, 400, 98, 700]):
        item = opened(f"d{n}", [f"text {n} {part}" for part in range(size)])
        vectors = dict(zip(item.cut.hashes, embedder.embed_documents(item.cut.texts), strict=True))
        writes.append(Write(item.cut.document, item.cut.indexed(vectors)))
    assert [len(part) for part in slices(writes)] == [501, 500, 200]


# -- retries --------------------------------------------------------------------------------------


def failing(*errors: KnowportError) -> Callable[[], str]:
    left = list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return call


def test_a_transient_failure_is_retried_with_growing_pauses() -> None:
    pauses: list[float] = []
    away = [EngineUnavailable("away") for _ in range(RETRIES)]
    done = with_retries(failing(*away), sleep=pauses.append, rng=random.Random(1))
    assert done == "done"
    assert len(pauses) == RETRIES == 4
    for number, pause in enumerate(pauses):
        assert 0.25 * 2**number <= pause <= 0.5 * 2**number


def test_the_last_of_too_many_failures_is_raised() -> None:
    errors = [EngineUnavailable(str(n)) for n in range(RETRIES + 1)]
    with pytest.raises(EngineUnavailable, match=f"^{RETRIES}$"):
        with_retries(failing(*errors), sleep=lambda _: None)


@pytest.mark.parametrize(
    "error", [EngineError("broken"), GenerationChanged("switched"), LedgerBusy("waited already")]
)
def test_what_waiting_does_not_mend_is_raised_at_once(error: KnowportError) -> None:
    pauses: list[float] = []
    with pytest.raises(type(error)):
        with_retries(failing(error), sleep=pauses.append)
    assert pauses == []


# -- watching -------------------------------------------------------------------------------------

REPORT = IngestReport((), 0, 0, 0.0)


def test_a_watch_syncs_at_first_and_after_changes_and_stops() -> None:
    reports: list[IngestReport] = []
    ticks = iter([False, False, True, False, True, True])
    keep_in_sync(
        ticks,
        lambda: REPORT,
        on_report=reports.append,
        on_error=pytest.fail,
        should_stop=lambda: len(reports) == 3,
        clock=lambda: 0.0,
    )
    assert len(reports) == 3
    assert list(ticks) == []  # the tick at which it was to stop did no more


def test_a_passing_failure_is_told_and_tried_again_later_without_a_change() -> None:
    now = [0.0]
    calls: list[float] = []
    errors: list[KnowportError] = []

    def sync() -> IngestReport:
        calls.append(now[0])
        if len(calls) == 1:
            raise EngineUnavailable("away")
        return REPORT

    def ticks() -> object:
        for _ in range(30):
            yield False
            now[0] += 1.0

    keep_in_sync(
        ticks(),  # type: ignore[arg-type]
        sync,
        on_report=lambda _: None,
        on_error=errors.append,
        should_stop=lambda: False,
        clock=lambda: now[0],
    )
    assert calls == [0.0, RETRY_SECONDS]
    assert [error.code for error in errors] == ["engine_unavailable"]


def test_a_folder_that_is_away_for_a_while_does_not_end_a_watch() -> None:
    reports: list[IngestReport] = []
    errors: list[KnowportError] = []
    now = iter(range(0, 1_000, 20))

    def sync() -> IngestReport:
        if len(reports) == 1 and not errors:
            raise InvalidInput("'kb' does not exist.", field="path")
        return REPORT

    keep_in_sync(
        iter([True] * 4),
        sync,
        on_report=reports.append,
        on_error=errors.append,
        should_stop=lambda: False,
        clock=lambda: float(next(now)),
    )

    assert [str(error) for error in errors] == ["'kb' does not exist."]
    assert len(reports) == 3


def test_a_path_that_was_wrong_from_the_start_ends_a_watch() -> None:
    def sync() -> IngestReport:
        raise InvalidInput("'kb' does not exist.", field="path")

    with pytest.raises(InvalidInput):
        keep_in_sync(
            iter([True]),
            sync,
            on_report=pytest.fail,
            on_error=pytest.fail,
            should_stop=lambda: False,
        )


def test_a_lasting_failure_ends_a_watch() -> None:
    def sync() -> IngestReport:
        raise ConfigurationError("wrong")

    with pytest.raises(ConfigurationError):
        keep_in_sync(
            iter([False]),
            sync,
            on_report=pytest.fail,
            on_error=pytest.fail,
            should_stop=lambda: False,
        )


def test_no_thread_is_left_of_a_pool() -> None:
    """The pools of an ingest end with it, so that a process may be forked afterwards."""
    names = [thread.name for thread in threading.enumerate()]
    assert [name for name in names if name.startswith("knowport-ingest")] == []
