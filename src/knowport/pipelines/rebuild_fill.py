"""Fill a generation that is not active until it holds what the ledger knows.

A rebuild replays: it never writes a document twice when the document is ingested, but compares what
is built (``ledger.built``) with what the ledger knows, writes the difference, and compares again.
So a document that is ingested, changed or deleted meanwhile is simply still a difference.

A document's mark is emptied before its rows are touched, and only when they are all there it gets
the hash of the version that was written. So rows without a mark do not exist, and what a crash
leaves half done is known: it is deleted and written again. The ledger empties the marks of what was
half done in the active generation in the same way. Nobody else writes to the generation (one
rebuild at a time), so writers of the active one wait for the last pass only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

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
# Chunks to write and documents to remove for which others may be let wait.
SHORT_WAIT = 20
_GO_ON = (
    "What was embedded is kept and the active generation answers: run `knowport rebuild run` again "
    "to go on. A document that can never be embedded has to be changed or deleted first."
)


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
    """The difference."""
    changed, gone = ledger.unbuilt(generation)
    return Pending(list(ledger.infos(changed).values()), gone)


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
            if self._pass(left, may_embed=True):
                return True
        return False

    def finish(self, *, patient: bool) -> bool:
        """The last pass, for whoever is the only writer; raises as ``fill``.

        A ``patient`` one does not let others wait for long: where there is much to do, or anything
        to embed, it leaves that and returns False.
        """
        left = pending(self._ledger, self._target.name)
        if patient and left.chunks + len(left.gone) > SHORT_WAIT:
            return False
        return not self._pass(left, may_embed=not patient)

    def _pass(self, left: Pending, *, may_embed: bool) -> bool:
        """Write and remove; returns whether it was stopped, or would have had to embed."""
        self._total = self._done + left.chunks
        self._tell()
        for group in self._groups(left.changed):
            ready = None if self._should_stop() else self._ready(group, may_embed=may_embed)
            if ready is None:
                return True
            self._refuse_other_state()
            self._write(ready)
            self._done += group.weight
            self._tell()
        for start in range(0, len(left.gone), GROUP_DOCUMENTS):
            self._refuse_other_state()
            self._remove(left.gone[start : start + GROUP_DOCUMENTS])
        return False

    def _groups(self, infos: Sequence[DocumentInfo]) -> Iterator[_Group]:
        """Documents, cut as the generation cuts, so many at a time as are written together."""
        group = _Group()
        for info in infos:
            document = self._ledger.document_text(info.doc_id)
            if document is not None:  # else it was deleted this moment
                group.cuts.append(cut(document, self._target.chunking))
            group.weight += _weight(info)
            if len(group.cuts) == GROUP_DOCUMENTS or group.chunks >= GROUP_CHUNKS:
                yield group
                group = _Group()
        if group.weight:
            yield group

    def _ready(self, group: _Group, *, may_embed: bool) -> list[Write] | None:
        """The documents of a group with their vectors, which a large one leaves in the cache; None
        if it was asked to stop, or would have to embed and may not."""
        small = {name for whole in group.cuts if not whole.large for name in whole.hashes}
        known: dict[str, Vector] = {}
        done = 0
        for texts, keys in _parts(group.cuts):
            vectors = Vectors(self._target.embedder, self._ledger)
            tell = partial(self._tell_of, vectors, group, done)
            stop = self._should_stop if may_embed else lambda: True
            try:
                if vectors.fill(texts, keys=keys, should_stop=stop, on_batch=tell):
                    return None
            except EmbeddingError as error:
                error.remedy = f"{error.remedy} {_GO_ON}".strip()
                raise
            self._misses += vectors.embedded
            self._hits += len(texts) - vectors.embedded
            known.update((n, v) for n, v in vectors.known.items() if n in small)
            done += len(texts)
        return [self._checked(whole, known) for whole in group.cuts]

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

    def _write(self, writes: Sequence[Write]) -> None:
        ledger, index, name = self._ledger, self._target.index, self._target.name
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
        gone = [d for d in doc_ids if d not in known or known[d].state == "deleting"]
        for doc_id in gone:
            self._target.index.delete_by_doc_id(doc_id)
        self._ledger.drop_built(self._target.name, gone)
        self._removed += len(gone)

    def _tell_of(self, vectors: Vectors, group: _Group, before: int, _: float) -> None:
        """How far it is, with what a group has of its vectors after ``before`` of its texts."""
        share = (before + len(vectors.known)) / max(1, group.chunks)
        made = vectors.embedded
        self._tell(int(share * group.weight), cached=len(vectors.known) - made, embedded=made)

    def _tell(self, more: int = 0, *, cached: int = 0, embedded: int = 0) -> None:
        done, hits, misses = self._done + more, self._hits + cached, self._misses + embedded
        self._on_progress(RebuildProgress("build", done, self._total, hits, misses))


@dataclass(slots=True)
class _Group:
    """Documents that are written together; ``weight`` is what they count for in the progress."""

    cuts: list[CutDocument] = field(default_factory=list)
    weight: int = 0

    @property
    def chunks(self) -> int:
        return sum(len(whole.chunks) for whole in self.cuts)


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


def _weight(info: DocumentInfo) -> int:
    return max(info.chunk_count, 1)
