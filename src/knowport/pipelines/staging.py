"""The second stage of an ingest: vectors for cut documents, in batches that are always full.

Texts of several documents share a batch, and documents leave in the order in which they came, each
when all of its vectors are there. What was embedded is in the cache at once, so nothing is
embedded twice after an interruption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from knowport.errors import EmbeddingError
from knowport.model import FileResult, Vector
from knowport.pipelines.opening import Opened, Settled
from knowport.pipelines.replace import LARGE_DOCUMENT
from knowport.ports import Embedder, Ledger

# Texts that are looked up in the cache at once.
PART_TEXTS = 500


@dataclass(slots=True, eq=False)
class Staged:
    """A file on its way. ``vectors`` by text hash; those of a large document wait in the cache."""

    item: Opened | Settled
    vectors: dict[str, Vector] = field(default_factory=dict)
    asked: int = 0
    missing: int = 0
    failed: FileResult | None = None

    @property
    def chunks(self) -> int:
        return len(self.item.cut.chunks) if isinstance(self.item, Opened) else 0

    @property
    def large(self) -> bool:
        return self.chunks > LARGE_DOCUMENT

    @property
    def ready(self) -> bool:
        return self.failed is not None or (self.asked == self.chunks and not self.missing)

    @property
    def done(self) -> int:
        """Chunks that have their vectors."""
        return self.asked - self.missing


class Staging:
    """Files in order until their vectors are there; ``embedded`` counts texts that were embedded.

    To be used by one thread.
    """

    def __init__(self, embedder: Embedder, ledger: Ledger) -> None:
        self._embedder, self._ledger = embedder, ledger
        self._todo: dict[str, str] = {}
        self._waiting: dict[str, list[Staged]] = {}
        self.pending: deque[Staged] = deque()
        self.embedded = 0

    def add(self, items: Sequence[Opened | Settled]) -> Iterator[None]:
        """Take files in, part by part: between the parts the full batches are to be embedded."""
        part: list[tuple[Staged, Opened, slice]] = []
        texts = 0
        for item in items:
            staged = Staged(item)
            self.pending.append(staged)
            if not isinstance(item, Opened):
                continue
            for start in range(0, staged.chunks, PART_TEXTS):
                part.append((staged, item, slice(start, start + PART_TEXTS)))
                texts += len(item.cut.hashes[part[-1][2]])
                if texts >= PART_TEXTS:
                    self._ask(part)
                    yield
                    part, texts = [], 0
        if part:
            self._ask(part)
        yield

    def _ask(self, part: Sequence[tuple[Staged, Opened, slice]]) -> None:
        """Find out which of the texts of a part are to be embedded."""
        names = dict.fromkeys(name for _, item, at in part for name in item.cut.hashes[at])
        unknown = [name for name in names if name not in self._todo]
        known = self._ledger.cached_vectors(self._embedder.identity, unknown)
        for staged, item, at in part:
            hashes = item.cut.hashes[at]
            staged.asked += len(hashes)
            if staged.failed:
                continue
            for name, text in zip(hashes, item.cut.texts[at], strict=True):
                if name in known:
                    self._give(staged, name, known[name])
                    continue
                self._todo.setdefault(name, text)
                waiting = self._waiting.setdefault(name, [])
                if staged not in waiting[-1:]:
                    waiting.append(staged)
                    staged.missing += 1

    @staticmethod
    def _give(staged: Staged, name: str, vector: Vector) -> None:
        if not staged.large:
            staged.vectors[name] = vector

    @property
    def batch_size(self) -> int:
        return self._embedder.batch_size

    @property
    def todo(self) -> int:
        """Texts that wait to be embedded."""
        return len(self._todo)

    def embed(self) -> None:
        """Embed the next batch. A document with a text that the embedder refuses fails; for a
        failure that is no single text's fault EmbeddingError is raised."""
        batch = list(islice(self._todo, self._embedder.batch_size))
        try:
            matrix = self._embedder.embed_documents([self._todo[name] for name in batch])
        except EmbeddingError as error:
            at = batch[error.position or 0]
            key = self._key(at)
            if error.position is None:
                error.message = f"In the batch from {key}: {error.message}"
                raise
            error.message = f"{key}: {error.message}"
            self._refuse(at, error)
            return
        new = dict(zip(batch, matrix, strict=True))
        self._ledger.store_vectors(self._embedder.identity, new)
        self.embedded += len(batch)
        for name, vector in new.items():
            del self._todo[name]
            for staged in self._waiting.pop(name):
                staged.missing -= 1
                self._give(staged, name, vector)

    def _key(self, name: str) -> str:
        item = self._waiting[name][0].item
        assert isinstance(item, Opened)
        return item.cut.keys()[name]

    def _refuse(self, name: str, error: EmbeddingError) -> None:
        """Fail the documents of a text, and forget what is waited for by nobody else."""
        for staged in self._waiting[name]:
            assert isinstance(staged.item, Opened)
            staged.failed = staged.item.failed("embedding", error)
        for other, waiting in list(self._waiting.items()):
            waiting[:] = [staged for staged in waiting if not staged.failed]
            if not waiting:
                del self._waiting[other], self._todo[other]

    def ready(self) -> Iterator[Staged]:
        """The files at the head that lack nothing; they leave."""
        while self.pending and self.pending[0].ready:
            yield self.pending.popleft()
