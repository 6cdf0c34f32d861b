"""What the pipelines need from the world. Each port has at least two real implementations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from knowport.model import (
    Document,
    DocumentInfo,
    EmbedderIdentity,
    Generation,
    IndexedChunk,
    Matrix,
    Metadata,
    SearchHit,
    SearchRequest,
    Vector,
)


class Embedder(Protocol):
    """Turns text into vectors. Safe to call from several threads."""

    @property
    def identity(self) -> EmbedderIdentity: ...

    @property
    def batch_size(self) -> int:
        """Most texts that one call to ``embed_documents`` should carry."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Vector of a query, shape ``(dimension,)``, finite, non-zero.

        Raises EmbeddingError or EmbeddingUnavailable.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Vectors of texts in their order, shape ``(len(texts), dimension)``, finite, non-zero.

        Raises EmbeddingError (with ``position`` where one text is to blame) or
        EmbeddingUnavailable.
        """
        ...


class KnowledgeSearchPort(Protocol):
    """Reads one generation of the index."""

    def search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        """Hits of one search, best first, at most ``retrieve_k``; ties by ascending id.

        ``dense`` and ``sparse`` ask one leg, ``hybrid`` lets the engine fuse both by the ranker
        ``rrf`` or ``weighted``. ``scores.dense`` is set on every hit where the request has a
        vector. An empty index or filter gives an empty tuple; a failure raises EngineError.
        """
        ...

    def count(self, *, kb_scope: str | None = None, doc_id: str | None = None) -> int:
        """Chunks stored, by a read that sees all completed writes."""
        ...


class KnowledgeWritePort(Protocol):
    """Writes one generation of the index."""

    def check(self, chunks: Sequence[IndexedChunk]) -> None:
        """Raises InvalidInput for what ``upsert_chunks`` would refuse."""
        ...

    def upsert_chunks(self, chunks: Sequence[IndexedChunk]) -> None:
        """Store chunks, replacing those of the same id. All of them are checked before any is
        written; raises InvalidInput or EngineError."""
        ...

    def delete_by_doc_id(self, doc_id: str, *, from_index: int = 0) -> int:
        """Delete the chunks of one document from ``from_index`` on; returns how many there were."""
        ...

    def iter_ids(self, *, doc_id: str | None = None) -> Iterator[str]:
        """Every stored chunk id, in no particular order."""
        ...


class Ledger(Protocol):
    """Remembers documents, generations and vectors."""

    def active_generation(self) -> Generation | None: ...

    def add_generation(self, generation: Generation) -> None:
        """Record a generation, or record it anew, and make it the active one."""
        ...

    def document(self, doc_id: str) -> DocumentInfo | None: ...

    def document_text(self, doc_id: str) -> Document | None:
        """The document with its text, as last begun or committed."""
        ...

    def documents(
        self, *, kb_scope: str | None = None, category: str | None = None
    ) -> tuple[DocumentInfo, ...]:
        """Documents in order of id."""
        ...

    def categories(self, kb_scope: str) -> tuple[str, ...]:
        """Distinct non-empty categories of a scope, sorted."""
        ...

    def infos(self, doc_ids: Sequence[str]) -> Mapping[str, DocumentInfo]:
        """What is known of documents, by id; unknown ones are absent."""
        ...

    def begin_writes(self, writes: Sequence[tuple[Document, int]]) -> None:
        """Record at once that documents of so many chunks are about to be written (state
        ``writing``)."""
        ...

    def commit_writes(self, doc_ids: Sequence[str]) -> None:
        """Record at once that the engine holds the documents (state ``indexed``)."""
        ...

    def reopen_writes(self, doc_ids: Sequence[str]) -> None:
        """Record that the engine does not hold the documents whole (state ``writing``)."""
        ...

    def begin_delete(self, doc_id: str) -> None: ...

    def commit_delete(self, doc_id: str) -> None: ...

    def unfinished(self) -> tuple[DocumentInfo, ...]:
        """Documents whose writing or deleting was interrupted."""
        ...

    def catalogues(self) -> Mapping[str, str]:
        """Domain catalogues as TOML texts, by source, in order of source."""
        ...

    def store_catalogue(self, source: str, text: str | None) -> None:
        """Keep the catalogue of a source; None forgets it."""
        ...

    def store_trace(self, lookup_id: str, trace: Metadata) -> None: ...

    def trace(self, lookup_id: str) -> Metadata | None: ...

    def prune_traces(self, *, max_age_days: int, max_count: int) -> int:
        """Drop traces that are too old or too many; returns how many went."""
        ...

    def cached_vectors(
        self, embedder: EmbedderIdentity, hashes: Sequence[str]
    ) -> Mapping[str, Vector]:
        """Known vectors by text hash; unknown hashes are absent."""
        ...

    def store_vectors(self, embedder: EmbedderIdentity, vectors: Mapping[str, Vector]) -> None: ...
