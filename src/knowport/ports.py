"""What the pipelines need from the world. Each port has at least two real implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from knowport.model import (
    ApiKey,
    BuiltDocument,
    ChunkMark,
    Document,
    DocumentInfo,
    DocumentVersion,
    EmbedderIdentity,
    Generation,
    IndexedChunk,
    Matrix,
    Metadata,
    PlannedWrite,
    SearchHit,
    SearchRequest,
    StoredRow,
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

    def begin_search(self, request: SearchRequest) -> Callable[[], tuple[SearchHit, ...]]:
        """Start a search and return what waits for its hits and gives them, or raises, as
        ``search`` does; called once. Other searches may run meanwhile."""
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

    def iter_rows(self, *, doc_id: str | None = None) -> Iterator[StoredRow]:
        """Every stored row, for audits, in no particular order; one id may come twice."""
        ...


class Ledger(Protocol):
    """Remembers documents and their versions, generations, vectors, traces and access keys.

    Every method is one transaction and raises LedgerError.
    """

    def exclusive(self) -> AbstractContextManager[None]:
        """Held by one writer at a time among all threads and processes of this ledger, and freed
        by the end of its process. Not re-entrant. Waits up to a minute, then raises LedgerBusy."""
        ...

    def rebuilding(self) -> AbstractContextManager[None]:
        """Held by one rebuild command at a time, as ``exclusive`` is by a writer; does not wait,
        but raises RebuildError where another has it."""
        ...

    # -- generations

    def active_generation(self) -> Generation | None: ...

    def generations(self) -> tuple[Generation, ...]:
        """Every generation, in order of creation."""
        ...

    def save_generation(self, generation: Generation) -> None:
        """Record a generation, or record it anew; its name is its key. No other row changes."""
        ...

    def activate(self, name: str, *, activated_at: str, forced: bool) -> None:
        """Make a generation the active one, at once with all that hangs on it.

        The active one becomes ``previous`` and its documents are kept as its built ones; those
        built for ``name`` become the chunk counts, marks and versions of the documents. What was
        ``previous`` before stays so. Raises RebuildError where a document is not built for
        ``name`` in its present version, or one is that no longer exists.
        """
        ...

    def tidy_up(self) -> None:
        """Remove what a switch has left behind and nobody reads: apart from it, because others wait
        for a switch. Safe to leave out and to interrupt."""
        ...

    def drop_generation(self, name: str) -> None:
        """Forget a generation and its built documents; never the active one (RebuildError)."""
        ...

    def built(self, generation: str) -> Mapping[str, str]:
        """Content hash by document id of what a generation that is not active holds."""
        ...

    def unbuilt(self, generation: str) -> tuple[Sequence[str], Sequence[str]]:
        """Ids of the documents that are not built for a generation as they stand, and of those that
        are built and should not be: because they are gone, or being deleted and half built. Both
        in order; of what is being deleted all may be built, or nothing."""
        ...

    def built_chunks(self, generation: str) -> int:
        """How many chunks a generation that is not active holds, all documents together."""
        ...

    def built_marks(
        self, generation: str, doc_ids: Sequence[str]
    ) -> Mapping[str, tuple[ChunkMark, ...]]:
        """Marks of the chunks that a generation that is not active holds of documents, by id;
        one it does not hold is absent."""
        ...

    def store_built(self, generation: str, documents: Sequence[BuiltDocument]) -> None: ...

    def drop_built(self, generation: str, doc_ids: Sequence[str]) -> None: ...

    # -- documents

    def document(self, doc_id: str) -> DocumentInfo | None: ...

    def document_text(self, doc_id: str) -> Document | None:
        """The document with its text, as last begun or committed."""
        ...

    def documents(
        self, *, kb_scope: str | None = None, category: str | None = None
    ) -> tuple[DocumentInfo, ...]:
        """Documents in order of id."""
        ...

    def documents_page(
        self, *, kb_scope: str, category: str | None, after: str, limit: int
    ) -> tuple[DocumentInfo, ...]:
        """At most ``limit`` documents whose id is greater than ``after``, in order of id by code
        point; '' begins."""
        ...

    def categories(self, kb_scope: str) -> tuple[str, ...]:
        """Distinct non-empty categories of a scope, sorted."""
        ...

    def infos(self, doc_ids: Sequence[str]) -> Mapping[str, DocumentInfo]:
        """What is known of documents, by id; unknown ones are absent."""
        ...

    def marks(self, doc_ids: Sequence[str]) -> Mapping[str, tuple[ChunkMark, ...]]:
        """Marks of the chunks of documents in the active generation, by document id."""
        ...

    def begin_writes(self, writes: Sequence[PlannedWrite]) -> None:
        """Record at once that documents are about to be written (state ``writing``)."""
        ...

    def commit_writes(self, doc_ids: Sequence[str], *, generation: str) -> None:
        """Record at once that the engine holds the documents (state ``indexed``), each as the
        new version of its history."""
        ...

    def touch_files(self, file_hashes: Mapping[str, str]) -> None:
        """Set ``file_hash`` by document id; nothing else changes."""
        ...

    def reopen_writes(self, doc_ids: Sequence[str]) -> None:
        """Record that the engine does not hold the documents whole (state ``writing``)."""
        ...

    def begin_delete(self, doc_id: str) -> None: ...

    def commit_delete(self, doc_id: str) -> None:
        """Forget the document; its history stays, ended by ``deleted``."""
        ...

    def unfinished(self) -> tuple[DocumentInfo, ...]:
        """Documents whose writing or deleting was interrupted."""
        ...

    def versions(self, doc_id: str, *, kb_scope: str | None = None) -> tuple[DocumentVersion, ...]:
        """History of a document, newest first, in all scopes or in one; at most the last 50
        versions are kept."""
        ...

    # -- catalogues and traces

    def catalogues(self) -> Mapping[str, Mapping[str, str]]:
        """Domain catalogues as TOML texts, by scope and then by source, both in order."""
        ...

    def store_catalogue(self, source: str, text: str | None, *, kb_scope: str) -> None:
        """Keep the catalogue of a source in a scope; None forgets it."""
        ...

    def store_trace(self, lookup_id: str, trace: Metadata) -> None: ...

    def trace(self, lookup_id: str) -> Metadata | None: ...

    def prune_traces(self, *, max_age_days: int, max_count: int) -> int:
        """Drop traces that are too old or too many; returns how many went."""
        ...

    # -- embedding cache

    def cached_vectors(
        self, embedder: EmbedderIdentity, hashes: Sequence[str]
    ) -> Mapping[str, Vector]:
        """Known vectors by text hash; unknown hashes are absent."""
        ...

    def store_vectors(self, embedder: EmbedderIdentity, vectors: Mapping[str, Vector]) -> None: ...

    # -- access keys

    def add_key(self, key: ApiKey) -> None: ...

    def keys(self) -> tuple[ApiKey, ...]:
        """Every key, in order of creation, revoked and expired ones as well."""
        ...

    def key_of_hash(self, key_hash: str) -> ApiKey | None: ...

    def revoke_key(self, key_id: str, *, revoked_at: str) -> bool:
        """Whether there was such a key that was not revoked."""
        ...
