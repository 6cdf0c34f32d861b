"""Documents in and out of the index, so that a reader sees the old or the new.

A replacement records the new texts in the ledger as ``writing``, upserts the new chunks over the
old, deletes the tail of each longer old version, and records ``indexed``. What an interruption
leaves is finished at the next start (``pipelines.recovery``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from knowport.core.chunking import ChunkingOptions, chunk_document
from knowport.core.compose import search_text, text_hash
from knowport.core.identity import evidence_key
from knowport.errors import UnknownDocument
from knowport.model import Chunk, Document, IndexedChunk, Vector
from knowport.ports import KnowledgeSearchPort, KnowledgeWritePort, Ledger


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
    def keys(self) -> dict[str, str]:
        """Evidence key of the first chunk that each hash names."""
        first = zip(reversed(self.hashes), reversed(self.chunks), strict=True)
        return {name: evidence_key(chunk.doc_id, chunk.chunk_index, "", 0) for name, chunk in first}

    def indexed(self, vectors: Mapping[str, Vector]) -> list[IndexedChunk]:
        """The chunks as the index takes them; ``vectors`` by text hash."""
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
            for chunk, text, name in zip(self.chunks, self.texts, self.hashes, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Write:
    """A document ready to be written; ``new`` promises that there is no older version."""

    document: Document
    chunks: Sequence[IndexedChunk]
    new: bool


def cut(document: Document, chunking: ChunkingOptions) -> CutDocument:
    """Chunk a document and compose what its chunks are searched by."""
    chunks = chunk_document(
        document.doc_id, document.text, document.text_format, document.title, chunking
    )
    texts = [search_text(chunk) for chunk in chunks]
    return CutDocument(document, chunks, texts, [text_hash(text) for text in texts])


def replace_documents(writes: Sequence[Write], ledger: Ledger, index: Index) -> None:
    """Write documents over their older versions, together.

    Their chunks must have passed ``index.check``. Raises EngineError or LedgerError.
    """
    ledger.begin_writes([(write.document, len(write.chunks)) for write in writes])
    index.upsert_chunks([chunk for write in writes for chunk in write.chunks])
    for write in writes:
        if not write.new:
            index.delete_by_doc_id(write.document.doc_id, from_index=len(write.chunks))
    ledger.commit_writes([write.document.doc_id for write in writes])


def delete_document(doc_id: str, ledger: Ledger, index: KnowledgeWritePort) -> int:
    """Delete a document; returns how many chunks went. Raises UnknownDocument."""
    if ledger.document(doc_id) is None:
        raise UnknownDocument(
            f"No document has the id {doc_id!r}.", remedy="See `knowport documents list`."
        )
    ledger.begin_delete(doc_id)
    removed = index.delete_by_doc_id(doc_id)
    ledger.commit_delete(doc_id)
    return removed
