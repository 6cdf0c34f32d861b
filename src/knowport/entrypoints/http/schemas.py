"""Bodies of requests and replies that are not values of the vocabulary already."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from knowport.entrypoints.http.jobs import JobState
from knowport.model import (
    Answer,
    DocumentInfo,
    EmbedderIdentity,
    FileOutcome,
    GenerationState,
    TextFormat,
)

QUERY = "支付库报 ERROR 1205 (HY000) 怎么办"
DOC_ID = "handbook/mysql/lock-wait.md"

Scope = Annotated[
    str | None,
    Field(description="Only without access keys; a key decides its scope."),
]
Category = Annotated[
    str | None, Field(description="Only documents of this category; never widened.")
]


class Body(BaseModel):
    """What a request sends; a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LookupBody(Body):
    query: str = Field(
        description="A question, an error line or a code.", examples=[QUERY, "redis failover"]
    )
    category: Category = None
    kb_scope: Scope = None
    mode: Literal["dense", "hybrid"] | None = Field(
        None, description="Else retrieval.search.mode of the service."
    )


class ExplainBody(LookupBody):
    document_id: str | None = Field(
        None,
        description="An evidence key or a document id: why is it (not) in the answer?",
        examples=[f"{DOC_ID}#chunk-0"],
    )


class DocumentFields(Body):
    """What is said of a document beside its text; it wins over the text's front matter."""

    title: str | None = Field(None, description="Else the text's first heading.")
    category: str | None = None
    source: str | None = Field(None, description='Name of the origin; else "api".')
    kb_scope: Scope = None


class DocumentBody(DocumentFields):
    id: str | None = Field(None, description="Else in the query.", examples=[DOC_ID])
    text: str = Field(examples=["# 锁等待\n\n查 `sys.innodb_lock_waits`。\n"])
    text_format: TextFormat = "markdown"
    metadata: dict[str, Any] | None = None


class DeleteBody(Body):
    id: str = Field(examples=[DOC_ID])


class DomainsBody(Body):
    source: str = Field(description="The source that it belongs to.", examples=["handbook"])
    catalogue: str | None = Field(
        description="The TOML text of a `domains.toml`; null forgets the catalogue.",
        examples=['[[domain]]\nid = "mysql"\nnames = ["MySQL"]\n'],
    )
    kb_scope: Scope = None


class IngestBody(Body):
    path: str = Field(
        description="A file or folder of the service's machine, below server.ingest_roots.",
        examples=["/srv/handbook"],
    )
    source: str | None = Field(None, description="Begins every document id; else the folder's.")
    category: str | None = None
    category_from_folder: bool = False
    kb_scope: Scope = None
    include: list[str] = Field([], description="Only files that match, as in .gitignore.")
    exclude: list[str] = Field([], description="No files that match, as in .gitignore.")
    force: bool = Field(False, description="Write unchanged files again.")
    delete_missing: bool = Field(False, description="Delete documents whose files are gone.")
    force_delete: bool = Field(
        False, description="Also where the folder is empty, not all readable, or another one."
    )
    dry_run: bool = Field(False, description="Report what would happen, and write nothing.")


class Problem(BaseModel):
    """An error (RFC 9457). ``code`` is stable; ``remedy`` says what to do."""

    type: str = Field(examples=["urn:knowport:problem:invalid_input"])
    title: str
    status: int
    detail: str
    code: str
    remedy: str
    transient: bool = Field(description="Whether the same request may succeed later.")
    request_id: str
    errors: list[FieldError]


class FieldError(BaseModel):
    field: str
    message: str


class DocumentStored(BaseModel):
    """What became of a document that was put."""

    id: str
    outcome: FileOutcome
    chunks: int
    reason: str


class DocumentDeleted(BaseModel):
    id: str
    chunks_deleted: int


class DomainsStored(BaseModel):
    """The domains of a source now, in order of its catalogue."""

    source: str
    domains: list[str]


class DocumentText(BaseModel):
    """A document with its text."""

    doc_id: str
    source: str
    title: str
    category: str
    kb_scope: str
    content_hash: str
    chunk_count: int
    state: str
    updated_at: str
    metadata: dict[str, Any]
    file_hash: str
    text: str


class ChunkText(BaseModel):
    """What an evidence key stands for. ``start`` and ``end`` count code points of the document's
    text."""

    id: str
    doc_id: str
    chunk_index: int
    source: str
    title: str
    breadcrumb: str
    category: str
    content: str
    start: int
    end: int


class DocumentPage(BaseModel):
    """Documents in order of id. ``next_cursor`` is null on the last page."""

    documents: list[DocumentInfo]
    next_cursor: str | None


class Trace(BaseModel):
    """What is kept of a lookup; with texts only where trace.content is on."""

    model_config = ConfigDict(extra="allow")
    lookup_id: str
    generation: str
    plan: dict[str, Any]
    attempts: list[dict[str, Any]]
    selected_attempt: str
    found: bool
    relevance_level: str
    calibrated: bool
    candidates: list[dict[str, Any]]
    notices: list[str]
    timings_ms: dict[str, float]


class Explanation(BaseModel):
    """A lookup laid open."""

    answer: Answer
    query: str
    plan: dict[str, Any]
    attempts: list[dict[str, Any]]
    selected_attempt: str
    calibrated: bool
    candidates: list[dict[str, Any]]
    fusion_check: list[Any]
    timings_ms: dict[str, float]
    document: dict[str, Any] | None


class JobView(BaseModel):
    """Long work. ``result`` is there when it is done or cancelled, ``problem`` when it failed."""

    job_id: str = Field(examples=["job_0f5e1c3a9b7d2468"])
    kind: str = Field(examples=["ingest"])
    state: JobState
    created_at: str
    started_at: str
    ended_at: str
    progress: dict[str, Any] | None
    result: dict[str, Any] | None
    problem: Problem | None


class JobList(BaseModel):
    jobs: list[JobView]


class StatusView(BaseModel):
    """What the knowledge base holds in the caller's scope. ``home`` and ``milvus_uri`` are told to
    an admin only, and are null for others."""

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
    categories: list[str]
    unfinished: int
    warnings: list[str]


class GenerationView(BaseModel):
    """A generation, and how many documents it holds in their present version, of how many."""

    model_config = ConfigDict(extra="allow")
    name: str
    collection: str
    embedder: EmbedderIdentity
    state: GenerationState
    created_at: str
    activated_at: str
    chunking: dict[str, Any]
    documents_present: int
    documents_known: int
    chunks: int
    collection_lost: bool


class AtWork(BaseModel):
    """A job that works on the generations."""

    job_id: str
    kind: str
    state: Literal["queued", "running"]
    progress: dict[str, Any] | None


class GenerationList(BaseModel):
    """Oldest first. ``differs`` is how the active one is not what the settings ask for; ``at_work``
    is the job that works on the generations, if one does."""

    generations: list[GenerationView]
    differs: list[str]
    unknown_collections: list[str]
    next_step: str
    at_work: AtWork | None


class Dropped(BaseModel):
    dropped: str


class Health(BaseModel):
    status: Literal["ok"]
