"""Fill a generation that is not active until it holds what the ledger knows.

A rebuild replays: it never writes a document twice when the document is ingested, but compares what
is built (``ledger.built``) with what the ledger knows, writes the difference, and compares again.
So a document that is ingested, changed or deleted meanwhile is simply still a difference.

A group is made ready (cut, embedded) while others write, and written as the only writer, where each
document is looked at again: one that has changed is left to the next pass. Before a document's rows
are touched its mark is emptied, and only when they are all there it gets the real one. So rows
without a mark do not exist, and what a crash leaves half done is known: it is deleted and written
again. The ledger empties the marks of what was half done in the active generation in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from knowport.errors import EmbeddingError, InvalidInput, RebuildError
from knowport.model import BuiltDocument, DocumentInfo, GenerationState, Vector
from knowport.pipelines.rebuild_ports import BuildReport, OnProgress, RebuildProgress, Target
from knowport.pipelines.replace import (
    SLICE_CHUNKS,
    CachedChunks,
    CutDocument,
    Write,
    check_chunks,
    cut,
    marks,
    slices,
)
from knowport.pipelines.vectors import Vectors
from knowport.ports import Ledger

GROUP_DOCUMENTS, GROUP_CHUNKS = 100, 500
# Where writes keep coming as fast as they are replayed, the last ones wait.
MOST_PASSES = 20


@dataclass(frozen=True, slots=True)
class Pending:
    """Documents to write and ids to remove until a generation holds what the ledger knows."""

    changed: Sequence[DocumentInfo]
    gone: Sequence[str]

    @property
    def chunks(self) -> int:
        """About how many chunks there are to write: as many as the active generation has."""
        return sum(map(_weight, self.changed))

    def __len__(self) -> int:
        return len(self.changed) + len(self.gone)


def pending(ledger: Ledger, generation: str) -> Pending:
    """The difference; of what is half deleted anything may be there."""
    built = ledger.built(generation)
    infos = ledger.documents()
    known = {info.doc_id for info in infos}
    return Pending(
        [i for i in infos if i.state != "deleting" and built.get(i.doc_id) != i.content_hash],
        [doc_id for doc_id in built if doc_id not in known],
    )


class Filler:
    """Fills one generation; counts what it does. ``state`` is what the generation must be."""

    def __init__(
        self,
        ledger: Ledger,
        target: Target,
        state: GenerationState,
        *,
        on_progress: OnProgress = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ledger, self._target, self._state = ledger, target, state
        self._on_progress, self._should_stop = on_progress, should_stop
        self._started = time.monotonic()
        self._done = self._total = 0
        self._documents = self._removed = self._chunks = self._hits = self._misses = 0

    @property
    def handled(self) -> int:
        """Documents that were written or removed so far."""
        return self._documents + self._removed

    def report(self, *, stopped: bool = False) -> BuildReport:
        """What was done until now."""
        return BuildReport(
            generation=self._target.name,
            documents=self._documents,
            removed=self._removed,
            chunks=self._chunks,
            hits=self._hits,
            misses=self._misses,
            seconds=time.monotonic() - self._started,
            stopped=stopped,
        )

    def fill(self, *, passes: int = MOST_PASSES) -> bool:
        """Pass after pass until nothing is left; returns whether it was stopped before.

        Raises RebuildError, EmbeddingError, EngineError or LedgerError; what was written stays.
        """
        for _ in range(passes):
            left = pending(self._ledger, self._target.name)
            if not left:
                return False
            if self._pass(left, inside=False):
                return True
        return False

    def finish(self, *, at_most: int | None = None) -> bool:
        """The last pass, for whoever is the only writer; raises as ``fill``.

        Where there are more than ``at_most`` chunks to write it does nothing and returns False.
        """
        self._refuse_other_state()
        left = pending(self._ledger, self._target.name)
        if at_most is not None and left.chunks > at_most:
            return False
        self._pass(left, inside=True)
        return True

    def _pass(self, left: Pending, *, inside: bool) -> bool:
        self._total = self._done + left.chunks
        self._tell()
        for group in _groups(left.changed):
            ready = None if self._should_stop() else self._ready(group)
            if ready is None:
                return True
            with nullcontext() if inside else self._ledger.exclusive():
                self._refuse_other_state()
                self._write(ready)
            self._done += sum(map(_weight, group))
            self._tell()
        for start in range(0, len(left.gone), GROUP_DOCUMENTS):
            with nullcontext() if inside else self._ledger.exclusive():
                self._refuse_other_state()
                self._remove(left.gone[start : start + GROUP_DOCUMENTS])
        return False

    def _ready(self, group: Sequence[DocumentInfo]) -> list[Write] | None:
        """The documents of a group with their vectors, which a large one leaves in the cache; None
        if it was asked to stop."""
        found = (self._ledger.document_text(info.doc_id) for info in group)
        cuts = [cut(document, self._target.chunking) for document in found if document is not None]
        small = {name for whole in cuts if not whole.large for name in whole.hashes}
        known: dict[str, Vector] = {}
        share = sum(map(_weight, group)) / max(1, sum(len(whole.hashes) for whole in cuts))
        done = 0
        for texts, keys in _parts(cuts):
            vectors = Vectors(self._target.embedder, self._ledger)
            if self._embed(vectors, texts, keys, done, share):
                return None
            self._misses += vectors.embedded
            self._hits += len(texts) - vectors.embedded
            known.update((n, v) for n, v in vectors.known.items() if n in small)
            done += len(texts)
        return [self._checked(whole, known) for whole in cuts]

    def _embed(
        self,
        vectors: Vectors,
        texts: Mapping[str, str],
        keys: Mapping[str, str],
        before: int,
        share: float,
    ) -> bool:
        """Fill ``vectors``; returns whether it was stopped. ``before`` texts of the group are done,
        and each is a ``share`` of what the progress counts."""
        try:
            return vectors.fill(
                texts,
                keys=keys,
                should_stop=self._should_stop,
                on_batch=lambda _: self._tell(
                    int((before + len(vectors.known)) * share),
                    cached=len(vectors.known) - vectors.embedded,
                    embedded=vectors.embedded,
                ),
            )
        except EmbeddingError as error:
            error.remedy = (
                f"{error.remedy} What was embedded is kept and the active generation answers: run "
                "`knowport rebuild run` again to go on. A document that can never be embedded has "
                "to be changed or deleted first."
            ).strip()
            raise

    def _checked(self, whole: CutDocument, known: Mapping[str, Vector]) -> Write:
        chunks = CachedChunks(whole, self._cached) if whole.large else whole.indexed(known)
        write = Write(whole.document, chunks)
        try:
            check_chunks(write, self._target.index)
        except InvalidInput as error:
            raise RebuildError(
                f"The new generation cannot take a document: {error.message}",
                remedy=f"{error.remedy} Change or delete it, or choose other settings; then run "
                "`knowport rebuild run` again.".strip(),
            ) from error
        return write

    def _cached(self, names: Sequence[str]) -> Mapping[str, Vector]:
        return self._ledger.cached_vectors(self._target.embedder.identity, names)

    def _refuse_other_state(self) -> None:
        """Another process may have dropped the generation, or gone on with it."""
        states = {known.name: known.state for known in self._ledger.generations()}
        name = self._target.name
        if states.get(name) != self._state:
            raise RebuildError(
                f"Generation {name} was {self._state} and is {states.get(name, 'gone')} now.",
                remedy="See `knowport rebuild status`.",
            )

    def _write(self, ready: Sequence[Write]) -> None:
        ledger, index, name = self._ledger, self._target.index, self._target.name
        now = ledger.infos([write.document.doc_id for write in ready])
        writes = [write for write in ready if _is_current(write, now)]
        ids = [write.document.doc_id for write in writes]
        before = ledger.built_marks(name, ids)
        ledger.store_built(name, [BuiltDocument(doc_id, "", ()) for doc_id in ids])
        for doc_id in before:
            index.delete_by_doc_id(doc_id)
        for chunks in slices(writes):
            index.upsert_chunks(chunks)
        ledger.store_built(
            name,
            [
                BuiltDocument(w.document.doc_id, w.document.content_hash, marks(w.chunks))
                for w in writes
            ],
        )
        self._documents += len(writes)
        self._chunks += sum(len(write.chunks) for write in writes)

    def _remove(self, doc_ids: Sequence[str]) -> None:
        known = self._ledger.infos(doc_ids)
        gone = [doc_id for doc_id in doc_ids if doc_id not in known]
        for doc_id in gone:
            self._target.index.delete_by_doc_id(doc_id)
        self._ledger.drop_built(self._target.name, gone)
        self._removed += len(gone)

    def _tell(self, more: int = 0, *, cached: int = 0, embedded: int = 0) -> None:
        """How far it is, with what the group at hand adds."""
        done, hits, misses = self._done + more, self._hits + cached, self._misses + embedded
        self._on_progress(RebuildProgress("build", done, self._total, hits, misses))


def _parts(cuts: Sequence[CutDocument]) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """What the chunks of documents are searched by, and their keys, by text hash; some at a
    time."""
    texts: dict[str, str] = {}
    keys: dict[str, str] = {}
    for whole in cuts:
        for start in range(0, len(whole.hashes), SLICE_CHUNKS):
            at = slice(start, start + SLICE_CHUNKS)
            texts.update(zip(whole.hashes[at], whole.texts[at], strict=True))
            keys.update(whole.keys(at))
            if len(texts) >= SLICE_CHUNKS:
                yield texts, keys
                texts, keys = {}, {}
    if texts:
        yield texts, keys


def _is_current(write: Write, now: Mapping[str, DocumentInfo]) -> bool:
    info = now.get(write.document.doc_id)
    return info is not None and info.content_hash == write.document.content_hash


def _groups(infos: Sequence[DocumentInfo]) -> Iterator[list[DocumentInfo]]:
    group: list[DocumentInfo] = []
    chunks = 0
    for info in infos:
        group.append(info)
        chunks += _weight(info)
        if len(group) == GROUP_DOCUMENTS or chunks >= GROUP_CHUNKS:
            yield group
            group, chunks = [], 0
    if group:
        yield group


def _weight(info: DocumentInfo) -> int:
    return max(info.chunk_count, 1)
