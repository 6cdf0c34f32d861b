"""What the service answers with, beside the values of the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from knowport.model import DocumentInfo, EmbedderIdentity, FileOutcome, GenerationState


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document with its text."""

    info: DocumentInfo
    text: str


@dataclass(frozen=True, slots=True)
class ChunkText:
    """What an evidence key (``id``) stands for. ``start`` and ``end`` are code-point offsets into
    the document's text."""

    id: str
    doc_id: str
    source: str
    title: str
    breadcrumb: str
    category: str
    content: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Documents in order of id. ``next_cursor`` is None on the last page."""

    documents: Sequence[DocumentInfo]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a document that was put; ``reason`` is a stable code."""

    id: str
    outcome: FileOutcome
    chunks: int
    reason: str


@dataclass(frozen=True, slots=True)
class Job:
    """Long work in the service. ``result`` is there when it is done or cancelled, ``problem`` (a
    problem document) when it failed. Times are UTC, ISO 8601, '' for not yet."""

    job_id: str
    kind: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    created_at: str
    started_at: str
    ended_at: str
    progress: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    problem: Mapping[str, Any] | None

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """What the knowledge base holds in the scope of the key, and what it stands on. ``home`` and
    ``milvus_uri`` are told to an admin only."""

    version: str
    home: str | None
    milvus_uri: str | None
    engine: str
    generation: str
    collection: str
    embedder: EmbedderIdentity
    kb_scope: str
    documents: int
    chunks: int
    categories: Sequence[str]
    unfinished: int
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """A generation, and how many documents it holds in their present version, of how many."""

    name: str
    collection: str
    state: GenerationState
    created_at: str
    activated_at: str
    embedder: EmbedderIdentity
    chunking: Mapping[str, Any]
    documents_present: int
    documents_known: int
    chunks: int


@dataclass(frozen=True, slots=True)
class GenerationList:
    """Generations, oldest first. ``differs`` is how the active one is not what the settings ask
    for, ``next_step`` what can be done now, in words."""

    generations: Sequence[GenerationInfo]
    differs: Sequence[str]
    next_step: str
