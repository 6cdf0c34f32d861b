"""Documents in and out of the index, so that a reader sees the old or the new.

A replacement records the new texts in the ledger as ``writing``, upserts the new chunks over the
old, deletes the tail of each longer old version, and records ``indexed``. What an interruption
leaves is finished at the next start, or by the next ingest (``pipelines.recovery``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol, overload

from knowport.core.chunking import ChunkingOptions, chunk_document, forget_parsed
from knowport.core.compose import search_text, text_hash
from knowport.core.identity import checked_doc_id, evidence_key
from knowport.errors import GenerationChanged, InvalidInput, UnknownDocument
from knowport.model import (
    Chunk,
    ChunkMark,
    Document,
    DocumentInfo,
    IndexedChunk,
    PlannedWrite,
    Vector,
)
from knowport.ports import KnowledgeSearchPort, KnowledgeWritePort, Ledger

# Chunks that are held with their vectors, and handed to the engine, at once.
SLICE_CHUNKS = 500
# Above so many chunks neither their vectors nor a second copy of their texts are held.
LARGE_DOCUMENT = 2_000


class Index(KnowledgeSearchPort, KnowledgeWritePort, Protocol):
    """A generation that can be read and written."""


@dataclass(frozen=True, slots=True)
class CutDocument:
    """A document with its chunks. ``texts`` are what the chunks are searched by, ``hashes`` the
    names of their vectors in the cache; both one to one with ``chunks``."""

    document: Document
    chunks: Sequence[Chunk]
    texts: Sequence[str]
    hashes: Sequence[str]

    @property
    def large(self) -> bool:
        """Whether its vectors are not to be held all at once."""
        return len(self.chunks) > LARGE_DOCUMENT

    def keys(self, part: slice = slice(None)) -> dict[str, str]:
        """Evidence key of the first chunk of a part that each hash names."""
        first = zip(reversed(self.hashes[part]), reversed(self.chunks[part]), strict=True)
        return {name: evidence_key(chunk.doc_id, chunk.chunk_index, "", 0) for name, chunk in first}

    def indexed(
        self, vectors: Mapping[str, Vector], part: slice = slice(None)
    ) -> list[IndexedChunk]:
        """The chunks of a part as the index takes them; ``vectors`` by text hash."""
        document = self.document
        return [
            IndexedChunk(
                chunk=chunk,
                source=document.source,
                category=document.category,
                kb_scope=document.kb_scope,
                content_hash=text_hash(chunk.content),
                search_text=text,
                vector=vectors[name],
                metadata=document.metadata,
            )
            for chunk, text, name in zip(
                self.chunks[part], self.texts[part], self.hashes[part], strict=True
            )
        ]


class SearchTexts(Sequence[str]):
    """What chunks are searched by, composed each time it is asked for."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        return len(self._chunks)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, int):
            return search_text(self._chunks[place])
        return [search_text(chunk) for chunk in self._chunks[place]]


class CachedChunks(Sequence[IndexedChunk]):
    """The chunks of a document that is too large to hold all of its vectors at once.

    They are fetched slice by slice with ``vectors``, by text hash, each time they are asked for.
    """

    def __init__(
        self, whole: CutDocument, vectors: Callable[[Sequence[str]], Mapping[str, Vector]]
    ) -> None:
        self._whole, self._vectors = whole, vectors

    def __len__(self) -> int:
        return len(self._whole.chunks)

    @overload
    def __getitem__(self, place: int) -> IndexedChunk: ...
    @overload
    def __getitem__(self, place: slice) -> list[IndexedChunk]: ...
    def __getitem__(self, place: int | slice) -> IndexedChunk | list[IndexedChunk]:
        if isinstance(place, int):
            return self[(at := range(len(self))[place]) : at + 1][0]
        return self._whole.indexed(self._vectors(self._whole.hashes[place]), place)

    def __iter__(self) -> Iterator[IndexedChunk]:
        for start in range(0, len(self), SLICE_CHUNKS):
            yield from self[start : start + SLICE_CHUNKS]


@dataclass(frozen=True, slots=True)
class Write:
    """A document ready to be written."""

    document: Document
    chunks: Sequence[IndexedChunk]


def cut(document: Document, chunking: ChunkingOptions) -> CutDocument:
    """Chunk a document and compose what its chunks are searched by."""
    chunks = chunk_document(
        document.doc_id, document.text, document.text_format, document.title, chunking
    )
    texts: Sequence[str] = SearchTexts(chunks)
    if len(chunks) <= LARGE_DOCUMENT:
        texts = list(texts)
    else:
        forget_parsed()
    return CutDocument(document, chunks, texts, [text_hash(text) for text in texts])


def replace_documents(
    writes: Sequence[Write],
    ledger: Ledger,
    index: Index,
    *,
    generation: str,
    between_slices: Callable[[], None] = lambda: None,
) -> None:
    """Write documents over their older versions, together, as the only writer.

    Their chunks must have passed ``check_chunks``. ``generation`` is the one that ``index`` is.
    ``between_slices`` is called when some of the chunks are stored and not all; what it raises
    leaves the documents unfinished. Raises GenerationChanged where the generation is not the active
    one any more, InvalidInput where one of the documents stands in another scope by now,
    EngineError or LedgerError.
    """
    with as_writer(ledger, generation):
        write_documents(writes, ledger, index, generation=generation, between_slices=between_slices)


def delete_document(
    doc_id: str, ledger: Ledger, index: KnowledgeWritePort, *, generation: str
) -> int:
    """Delete a document as the only writer; returns how many chunks went.

    Raises UnknownDocument, GenerationChanged, EngineError or LedgerError.
    """
    with as_writer(ledger, generation):
        return remove_document(doc_id, ledger, index)


@contextmanager
def as_writer(ledger: Ledger, generation: str) -> Iterator[None]:
    """No other process or thread writes meanwhile, and the active generation stays what it is."""
    with ledger.exclusive():
        active = ledger.active_generation()
        if active is None or active.name != generation:
            raise GenerationChanged(
                f"Generation {generation} is not the active one any more.",
                remedy="Begin again.",
            )
        yield


def write_documents(
    writes: Sequence[Write],
    ledger: Ledger,
    index: Index,
    *,
    generation: str,
    between_slices: Callable[[], None] = lambda: None,
) -> None:
    """``replace_documents`` for whoever is the only writer already."""
    known = ledger.infos([write.document.doc_id for write in writes])
    for write in writes:
        refuse_other_scope(write.document, known.get(write.document.doc_id))
    ledger.begin_writes([PlannedWrite(w.document, marks(w.chunks)) for w in writes])
    for place, chunks in enumerate(slices(writes)):
        if place:
            between_slices()
        index.upsert_chunks(chunks)
    for write in writes:
        if write.document.doc_id in known:
            index.delete_by_doc_id(write.document.doc_id, from_index=len(write.chunks))
    ledger.commit_writes([write.document.doc_id for write in writes], generation=generation)


def known_document(doc_id: str, ledger: Ledger) -> DocumentInfo:
    """What the ledger knows of a document. Raises UnknownDocument."""
    with suppress(InvalidInput):  # what cannot be an id is none that is known
        info = ledger.document(checked_doc_id(doc_id))
        if info is not None:
            return info
    raise unknown_document(doc_id)


def unknown_document(doc_id: str) -> UnknownDocument:
    return UnknownDocument(
        f"No document has the id {doc_id!r}.", remedy="See `knowport documents list`."
    )


def remove_document(doc_id: str, ledger: Ledger, index: KnowledgeWritePort) -> int:
    """``delete_document`` for whoever is the only writer already."""
    known_document(doc_id, ledger)
    ledger.begin_delete(doc_id)
    removed = index.delete_by_doc_id(doc_id)
    ledger.commit_delete(doc_id)
    return removed


def refuse_other_scope(document: Document, known: DocumentInfo | None) -> None:
    """Raises InvalidInput where the document already stands in another scope."""
    if known is not None and known.kb_scope != document.kb_scope:
        raise InvalidInput(
            f"Document {document.doc_id!r} already stands in another scope than "
            f"{document.kb_scope!r}.",
            field="doc_id",
            remedy="Use another source name or id, or delete it there first.",
        )


def is_current(known: DocumentInfo, document: Document) -> bool:
    """Whether the index holds this very version, whole."""
    return known.state == "indexed" and known.content_hash == document.content_hash


def touch_files(documents: Sequence[Document], ledger: Ledger, *, generation: str) -> None:
    """Keep the file hashes of documents that the index holds already.

    Not of those that another writer has replaced meanwhile. Raises GenerationChanged, LedgerError.
    """
    with as_writer(ledger, generation):
        infos = ledger.infos([document.doc_id for document in documents])
        ledger.touch_files(
            {
                document.doc_id: document.file_hash
                for document in documents
                if document.doc_id in infos and is_current(infos[document.doc_id], document)
            }
        )


def check_chunks(write: Write, index: KnowledgeWritePort) -> None:
    """Raises InvalidInput for what the index would refuse of a document."""
    for chunks in slices([write]):
        index.check(chunks)


def slices(writes: Sequence[Write]) -> Iterator[list[IndexedChunk]]:
    """All chunks of all documents in order, some at a time."""
    held: list[IndexedChunk] = []
    for write in writes:
        for start in range(0, len(write.chunks), SLICE_CHUNKS):
            held.extend(write.chunks[start : start + SLICE_CHUNKS])
            if len(held) >= SLICE_CHUNKS:
                yield held
                held = []
    if held:
        yield held


def marks(chunks: Sequence[IndexedChunk]) -> tuple[ChunkMark, ...]:
    """What the ledger remembers of the chunks."""
    return tuple(ChunkMark(c.content_hash, c.chunk.start, c.chunk.end) for c in chunks)
