"""Lookups, ingests and deletes go on through a whole rebuild, the switch and a rollback."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from knowport import Answer, KnowledgeBase
from knowport.core.chunking import ChunkingOptions
from knowport.errors import UnknownDocument
from knowport.model import Matrix
from knowport.pipelines import rebuild_fill
from knowport.pipelines.rebuild_ports import RebuildProgress
from knowport.pipelines.replace import cut
from rebuilds import Base, assert_clean, doc_id, text_of
from support import HashEmbedder, mark

DOCUMENTS = 30
SMALL = {"chunking": {"size": 300}}
A_SECOND = 20  # lookups


class Slow(HashEmbedder):
    """Takes as long as makes the rebuild last for seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        time.sleep(self._seconds * len(texts))
        return super().embed_documents(texts)


@pytest.fixture
def serving(base: Base, monkeypatch: pytest.MonkeyPatch) -> Base:
    """Thirty pages cut to 600 characters, and groups small enough for many of them."""
    monkeypatch.setattr(rebuild_fill, "GROUP_DOCUMENTS", 3)
    big = Base(base.engine, base.home.parent / "big", documents=DOCUMENTS)
    big.filled().close()
    return big


class Traffic:
    """Lookups at a steady rate from several threads; what came, and what went wrong."""

    def __init__(self, *bases: KnowledgeBase) -> None:
        self.bases = bases
        self.answers: list[tuple[int, int, Answer]] = []
        self.errors: list[BaseException] = []
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [
            threading.Thread(target=self._look_up, args=(kb, number))
            for number, kb in enumerate(self.bases * 2)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(120)

    def go_on(self) -> None:
        """Wait for the answers of a second and a half, however long they take, or for an error."""
        enough = len(self.answers) + 1.5 * A_SECOND
        while len(self.answers) < enough and not self.errors:
            time.sleep(0.01)

    def _look_up(self, kb: KnowledgeBase, seed: int) -> None:
        draw = random.Random(seed)
        pause = 2 * len(self.bases) / A_SECOND
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += pause
            number, part = draw.randrange(DOCUMENTS), draw.randrange(4)
            try:
                answer = kb.lookup(mark("first", number, part, 1))
            except BaseException as error:  # noqa: BLE001  # any error is what is looked for
                self.errors.append(error)
                continue
            self.answers.append((number, part, answer))


def contents(kb: KnowledgeBase, size: int) -> dict[str, str]:
    """Content of every chunk by its key, cut to a size."""
    found = {}
    for info in kb.documents():
        document = kb._parts.ledger.document_text(info.doc_id)
        assert document is not None
        for chunk in cut(document, ChunkingOptions(size)).chunks:
            found[f"{chunk.doc_id}#chunk-{chunk.chunk_index}"] = chunk.content
    return found


def test_twenty_lookups_a_second_through_rebuild_switch_and_rollback(serving: Base) -> None:
    embedder = Slow(0.01)
    with (
        serving.open(embedder, settings=SMALL) as kb,
        serving.open(embedder, settings=SMALL) as other,  # follows the pointer by itself
    ):
        held = {"g1": contents(kb, 600)}
        traffic = Traffic(kb, other)
        with traffic.running():
            traffic.go_on()
            new = kb.rebuild.run(sample=20).build.generation
            held[new] = contents(kb, 300)
            traffic.go_on()
            assert kb.rebuild.rollback().generation == "g1"
            traffic.go_on()
            kb.rebuild.rollback()
            kb.rebuild.drop("g1")  # before the other one knows of the switch
            traffic.go_on()
        assert traffic.errors == []
        for number, part, answer in traffic.answers:
            first = answer.evidence[0]
            assert first.document_id.startswith(f"{doc_id(number)}#chunk-"), "an answer that is not"
            assert mark("first", number, part, 1) in first.excerpt
            for item in answer.evidence:
                assert item.excerpt == held[answer.generation][item.document_id], "a mixed answer"
        counts = Counter(answer.generation for _, _, answer in traffic.answers)
        assert set(counts) == {"g1", new}
        assert min(counts.values()) > A_SECOND // 2, "too few to say anything"
        assert_clean(kb)


class Writes:
    """Two hundred seeded writes from two threads, each over documents of its own."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb
        self.step, self.told_times = "before", 0
        self.steps: Counter[str] = Counter()
        self.texts = {doc_id(n): text_of(n) for n in range(DOCUMENTS)}
        self.errors: list[BaseException] = []

    def told(self, now: RebuildProgress) -> None:
        """Holds the rebuild up at its first ten steps, so that 160 writes fall among them."""
        self.step = now.step
        self.told_times += 1
        deadline = time.monotonic() + 120
        while self.told_times <= 10 and sum(self.steps.values()) < 16 * self.told_times:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def make(self, seed: int) -> None:
        draw = random.Random(seed)
        mine = [doc_id(n) for n in range(DOCUMENTS) if n % 2 == seed]
        mine += [f"kb/new{n:02}.md" for n in range(20) if n % 2 == seed]
        for count in range(100):
            name = draw.choice(mine)
            try:
                self._write(name, draw, count)
            except BaseException as error:  # noqa: BLE001  # any error is what is looked for
                self.errors.append(error)
            self.steps[self.step] += 1

    def _write(self, name: str, draw: random.Random, count: int) -> None:
        if name in self.texts and draw.random() < 0.4:
            self.kb.delete(name)
            del self.texts[name]
            return
        text = text_of(1000 * count + draw.randrange(1000), "third", parts=draw.randrange(1, 7))
        self.kb.put(name, text)
        self.texts[name] = text


def test_two_hundred_ingests_and_deletes_during_a_rebuild(serving: Base) -> None:
    with serving.open(Slow(0.004), settings=SMALL) as kb:
        writes = Writes(kb)
        threads = [threading.Thread(target=writes.make, args=(seed,)) for seed in (0, 1)]
        for thread in threads:
            thread.start()
        run = kb.rebuild.run(sample=20, on_progress=writes.told)
        writes.step = "after"
        for thread in threads:
            thread.join(60)
        assert writes.errors == []
        assert sum(writes.steps.values()) == 200
        assert writes.steps["build"] >= 150, writes.steps
        assert run.switch is not None
        assert kb.status().generation == run.build.generation
        assert {info.doc_id for info in kb.documents()} == set(writes.texts)
        for name, text in writes.texts.items():
            assert kb.document(name)[1].text.strip() == text.strip()
        assert_clean(kb)
        for name in {doc_id(n) for n in range(DOCUMENTS)} - set(writes.texts):
            with pytest.raises(UnknownDocument):
                kb.document(name)
            assert not any(name in key for key in map(str, kb._parts.index.iter_ids()))  # type: ignore[union-attr]
        # And back, where all of it has to be caught up with.
        kb.rebuild.rollback()
        assert {info.doc_id for info in kb.documents()} == set(writes.texts)
        assert_clean(kb)
