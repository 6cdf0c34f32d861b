"""The vocabulary: frozen values that every part of Knowport speaks in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]
"""One embedding, shape ``(dimension,)``."""

Matrix: TypeAlias = npt.NDArray[np.float32]
"""Embeddings of several texts in their order, shape ``(n, dimension)``."""

Metadata: TypeAlias = Mapping[str, Any]
"""JSON values by name."""

SearchMode: TypeAlias = Literal["dense", "sparse", "hybrid"]
RankerName: TypeAlias = Literal["adaptive", "rrf", "weighted"]
TextFormat: TypeAlias = Literal["markdown", "plain"]
DocumentState: TypeAlias = Literal["writing", "indexed", "deleting"]
GenerationState: TypeAlias = Literal[
    "building", "built", "verified", "active", "previous", "dropping"
]
VersionEnd: TypeAlias = Literal["", "replaced", "deleted"]
Role: TypeAlias = Literal["reader", "writer", "admin"]


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
class EmbedderIdentity:
    """What decides the vector of a text. Two indexes of one identity are comparable."""

    provider: str
    model: str
    dimension: int
    query_prefix: str = ""
    document_prefix: str = ""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: ``vector`` has the embedder's dimension, ``retrieve_k`` is the leg width.

    Only ``sparse`` does without a vector; the dense cosine of its hits is then not known.
    """

    query: str
    vector: Vector | None
    kb_scope: str
    retrieve_k: int = 20
    mode: SearchMode = "hybrid"
    category: str | None = None
    ranker: RankerName = "rrf"
    rrf_k: int = 60
    weight_dense: float = 1.0
    weight_sparse: float = 0.8


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of a hit, kept apart because their scales differ; None where not known.

    ``fused``   what the ranker gave; for RRF the sum of 1/(k + rank); orders, nothing else
    ``dense``   cosine of query and chunk vector, -1..1
    ``sparse``  BM25, 0 or more
    Ranks count from 1 within their leg.
    """

    fused: float | None = None
    dense: float | None = None
    dense_rank: int | None = None
    sparse: float | None = None
    sparse_rank: int | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """What the search port returns."""

    id: str
    doc_id: str
    chunk_index: int | None
    content: str
    title: str
    breadcrumb: str
    source: str
    category: str
    scores: Scores
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


class AttemptName(StrEnum):
    FILTERED = "filtered"
    UNFILTERED = "unfiltered"


@dataclass(frozen=True, slots=True)
class HitReason:
    """Why a candidate is here: the attempt that found it and the rank it had there (from 1)."""

    attempt: AttemptName
    rank: int


class RelevanceLevel(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Assessment:
    """How relevant a hit is.

    ``coverage`` is the share of the query's weight of terms that the chunk holds, 0..1; ``score``
    puts it and the dense cosine on one scale (see ``core.relevance``), None where neither is
    known; a fused score never enters.
    """

    level: RelevanceLevel
    score: float | None = None
    coverage: float = 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hit with its evidence key and its original rank (from 1) inside one lookup."""

    key: str
    rank: int
    hit: SearchHit
    reasons: tuple[HitReason, ...]
    assessment: Assessment = Assessment(RelevanceLevel.LOW)


class DropReason(StrEnum):
    DUPLICATE = "duplicate"
    OVER_CAP = "over_cap"
    BELOW_THRESHOLD = "below_threshold"
    BEYOND_RETURN_N = "beyond_return_n"
    OUT_OF_BUDGET = "out_of_budget"


@dataclass(frozen=True, slots=True)
class Drop:
    """A candidate that is not in the answer, and why."""

    key: str
    rank: int
    reason: DropReason


@dataclass(frozen=True, slots=True)
class EvidenceBlock:
    """A candidate that survived selection, with its level of relevance."""

    candidate: Candidate
    level: RelevanceLevel


@dataclass(frozen=True, slots=True)
class PackedEvidence:
    """An evidence block with the excerpt that fits the budget."""

    block: EvidenceBlock
    excerpt: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the reader of an answer should know; ``code`` is stable, ``message`` is prose."""

    code: str
    message: str


class TermKind(StrEnum):
    IDENTIFIER = "identifier"
    WORD = "word"
    HAN = "han"


@dataclass(frozen=True, slots=True)
class Term:
    """A lexical term of a query; ``text`` is lower case, as it is looked for."""

    text: str
    kind: TermKind


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What will be searched for.

    ``text`` is the normalised query and ``terms`` are its lexical terms. ``lexical`` tells whether
    it has any word that BM25 could match. ``category`` is the caller's hard filter;
    ``domains`` are those that the query names, and ``soft_category`` is the one of them if it is
    alone and no category is given.
    """

    original: str
    text: str
    lexical: bool
    kb_scope: str
    category: str | None
    mode: SearchMode
    notices: tuple[Notice, ...] = ()
    terms: tuple[Term, ...] = ()
    domains: tuple[str, ...] = ()
    soft_category: str | None = None


@dataclass(frozen=True, slots=True)
class LegWeights:
    """How much each leg counts in weighted RRF, 0..1, and why (a stable code)."""

    dense: float
    sparse: float
    reason: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One search of a lookup and what it found, best first.

    ``assessments`` are one to one with ``hits``. ``weights`` is None where the engine fused.
    ``low_quality`` says why the attempt is not good enough to stand on a guessed filter, or ''.
    ``failed_leg`` names the leg that did not answer, with the reason, or is ''.
    """

    name: AttemptName
    mode: SearchMode
    category: str | None
    hits: tuple[SearchHit, ...]
    assessments: tuple[Assessment, ...] = ()
    weights: LegWeights | None = None
    level: RelevanceLevel = RelevanceLevel.NONE
    low_quality: str = ""
    failed_leg: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that one step of a lookup took."""

    step: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Everything about one lookup; the agent sees its projection only."""

    lookup_id: str
    generation: str
    plan: QueryPlan
    attempts: tuple[Attempt, ...]
    selected_attempt: AttemptName
    candidates: tuple[Candidate, ...]
    found: bool
    level: RelevanceLevel
    calibrated: bool
    evidence: tuple[PackedEvidence, ...]
    drops: tuple[Drop, ...]
    notices: tuple[Notice, ...]
    timings: tuple[Timing, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One excerpt as the agent sees it; ``document_id`` is the evidence key to cite."""

    document_id: str
    source: str
    title: str
    breadcrumb: str
    excerpt: str
    truncated: bool
    relevance_level: RelevanceLevel
    via: AttemptName


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent sees of a lookup: no internal scores.

    ``withheld`` counts, by reason, the candidates that were found and are not in ``evidence``.
    """

    found: bool
    relevance_level: RelevanceLevel
    lookup_id: str
    generation: str
    evidence: tuple[Evidence, ...]
    withheld: Mapping[str, int]
    notices: tuple[Notice, ...]


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
class ApiKey:
    """An access key as it is kept: its hash (hex SHA-256) and never itself.

    Times are UTC, ISO 8601; '' for never.
    """

    key_id: str
    key_hash: str
    kb_scope: str
    role: Role
    name: str
    created_at: str
    expires_at: str = ""
    revoked_at: str = ""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The text of a file, not yet normalised, and where it came from.

    ``kind`` is the format its content has (markdown, text, html, pdf, docx, ...); ``encoding`` is
    the codec it was decoded with, '' where the format has none; ``title`` is what the format says
    of itself; ``removed`` counts characters of hidden or undecodable content that were left out;
    ``file_hash`` is the hex SHA-256 of the bytes.
    """

    text: str
    text_format: TextFormat
    kind: str = "text"
    encoding: str = "utf-8"
    title: str = ""
    removed: int = 0
    metadata: Metadata = field(default_factory=dict)
    file_hash: str = ""


class FileOutcome(StrEnum):
    INDEXED = "indexed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file of an ingest; ``reason`` is a stable code, ``detail`` is prose."""

    path: str
    outcome: FileOutcome
    doc_id: str | None = None
    chunks: int = 0
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """Where an ingest is. Bytes are of the files found; ``path`` is the file at hand."""

    bytes_done: int
    bytes_total: int
    files_done: int
    files_total: int
    chunks_done: int
    path: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did, file by file.

    ``vanished`` are documents of the source whose files are not in the folder; they stay in the
    index until they are deleted.
    """

    files: Sequence[FileResult]
    chunks_written: int
    chunks_embedded: int
    seconds: float
    interrupted: bool = False
    vanished: Sequence[str] = ()

    def count(self, outcome: FileOutcome) -> int:
        """Number of files with that outcome."""
        return sum(f.outcome is outcome for f in self.files)


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
