"""Builds of the index, and what a knowledge base stands on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from knowport.model.documents import ChunkMark
from knowport.model.values import EmbedderIdentity, Metadata

GenerationState: TypeAlias = Literal[
    "building", "built", "verified", "active", "previous", "dropping"
]


@dataclass(frozen=True, slots=True)
class Generation:
    """One complete build of the index: a Milvus collection and what it was built with.

    ``lexical``   it has a BM25 field
    ``proved_on`` the engine version on which its analyzer was last proved
    ``chunking``  size, overlap and version of the chunker
    ``embedding`` the settings that reach its embedder again, without secrets
    ``report``    the last verification; with ``forced``, why it was activated without one
    """

    name: str
    collection: str
    embedder: EmbedderIdentity
    analyzer: Metadata
    schema_version: int
    lexical: bool
    proved_on: str
    created_at: str
    chunking: Metadata = field(default_factory=dict)
    embedding: Metadata = field(default_factory=dict)
    state: GenerationState = "active"
    activated_at: str = ""
    report: Metadata = field(default_factory=dict)
    forced: bool = False


@dataclass(frozen=True, slots=True)
class BuiltDocument:
    """A document as a generation that is not the active one holds it."""

    doc_id: str
    content_hash: str
    marks: Sequence[ChunkMark]


@dataclass(frozen=True, slots=True)
class Status:
    """What a knowledge base holds and stands on."""

    home: str
    milvus_uri: str
    engine: str
    generation: str
    collection: str
    embedder: EmbedderIdentity
    kb_scope: str
    documents: int
    chunks: int
    categories: tuple[str, ...]
    unfinished: int
    warnings: tuple[str, ...]
