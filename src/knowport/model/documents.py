"""Documents, their chunks, and what the ledger remembers of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from knowport.model.values import Metadata, TextFormat, Vector

DocumentState: TypeAlias = Literal["writing", "indexed", "deleting"]


VersionEnd: TypeAlias = Literal["", "replaced", "deleted"]


@dataclass(frozen=True, slots=True)
class Document:
    """One source text as it was ingested.

    ``text`` is the normalised text (LF line ends, no BOM, no control characters) that chunk spans
    count in. ``content_hash`` is the hex SHA-256 of every field that reaches the index; how the
    text is cut is a property of the generation and not of the document. ``file_hash`` tells
    whether the file must be read again at all; '' where the text did not come from a file.
    """

    doc_id: str
    source: str
    title: str
    category: str
    kb_scope: str
    text: str
    text_format: TextFormat
    content_hash: str
    metadata: Metadata = field(default_factory=dict)
    file_hash: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a document.

    ``content`` is original text; where a table or a fence was split it repeats the header or the
    fence line, so it may hold more than ``text[start:end]``. ``start`` and ``end`` are code-point
    offsets into the document's normalised text. ``breadcrumb`` is the heading path.
    """

    doc_id: str
    chunk_index: int
    content: str
    title: str
    breadcrumb: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk with all that the engine stores of it."""

    chunk: Chunk
    source: str
    category: str
    kb_scope: str
    content_hash: str
    search_text: str
    vector: Vector
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """What an audit needs of a stored chunk. ``content`` is there so that it can be hashed anew."""

    id: str
    doc_id: str
    kb_scope: str
    category: str
    content: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What the ledger knows of a document, without its text.

    ``chunk_count`` and ``state`` are those of the active generation.
    """

    doc_id: str
    source: str
    title: str
    category: str
    kb_scope: str
    content_hash: str
    chunk_count: int
    state: DocumentState
    updated_at: str
    metadata: Metadata = field(default_factory=dict)
    file_hash: str = ""


@dataclass(frozen=True, slots=True)
class ChunkMark:
    """What is remembered of a chunk: hex SHA-256 of its content, and its span in the text."""

    content_hash: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A document about to be written, with the marks of its chunks in their order."""

    document: Document
    marks: Sequence[ChunkMark]


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """One version of a document in one generation, so that an old evidence key can be judged.

    ``marks`` are its chunks by ``chunk_index``. ``until`` and ``ended_by`` are '' while it is the
    current version. Times are UTC, ISO 8601.
    """

    doc_id: str
    generation: str
    content_hash: str
    marks: Sequence[ChunkMark]
    since: str
    until: str = ""
    ended_by: VersionEnd = ""
