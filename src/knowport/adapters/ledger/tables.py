"""Tables of the ledger. A change here needs a script in ``migrations`` (see ``schema``)."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    VARCHAR,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

METADATA = MetaData()

# By code point, as SQLite compares by itself; a PostgreSQL database may sort as a dictionary does.
_DOC_ID = String(400).with_variant(VARCHAR(400, collation="C"), "postgresql")
_ACTIVE = text("state = 'active'")
# Spelt out in queries too: SQLite uses a partial index only where it sees the same condition.
UNFINISHED = text("state != 'indexed'")
CURRENT = text("until = ''")

generations = Table(
    "generations",
    METADATA,
    Column("name", String(32), primary_key=True),
    Column("collection", String(255), nullable=False),
    Column("embedder", JSON, nullable=False),
    Column("analyzer", JSON, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("lexical", Boolean, nullable=False),
    Column("proved_on", String(100), nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("chunking", JSON, nullable=False),
    Column("embedding", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("activated_at", String(32), nullable=False),
    Column("report", JSON, nullable=False),
    Column("forced", Boolean, nullable=False),
    Index(
        "generations_one_active",
        "state",
        unique=True,
        sqlite_where=_ACTIVE,
        postgresql_where=_ACTIVE,
    ),
)

documents = Table(
    "documents",
    METADATA,
    Column("doc_id", _DOC_ID, primary_key=True),
    Column("source", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("category", String(256), nullable=False),
    Column("kb_scope", String(256), nullable=False),
    Column("text_format", String(16), nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("chunk_count", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Column("file_hash", String(64), nullable=False),
    Column("marks", LargeBinary, nullable=False),  # as ``marks.packed``
    Index("documents_by_scope", "kb_scope", "doc_id"),
    Index("documents_by_category", "kb_scope", "category", "doc_id"),
    Index("documents_unfinished", "doc_id", sqlite_where=UNFINISHED, postgresql_where=UNFINISHED),
)

# Apart from the documents, which are listed much more often than read.
texts = Table(
    "texts",
    METADATA,
    Column("doc_id", _DOC_ID, primary_key=True),
    Column("text", Text, nullable=False),
)

versions = Table(
    "versions",
    METADATA,
    Column("number", Integer, primary_key=True),  # in order of their beginning
    Column("doc_id", _DOC_ID, nullable=False),
    # '' for one of a document that was gone before scopes were kept.
    Column("kb_scope", String(256), nullable=False),
    Column("generation", String(32), nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("since", String(32), nullable=False),
    Column("until", String(32), nullable=False),
    Column("ended_by", String(16), nullable=False),
    Column("marks", LargeBinary, nullable=False),
    Index("versions_by_document", "doc_id", "number"),
    Index(
        "versions_one_current",
        "doc_id",
        unique=True,
        sqlite_where=CURRENT,
        postgresql_where=CURRENT,
    ),
)

# What generations other than the active one hold.
built = Table(
    "built",
    METADATA,
    Column("generation", String(32), primary_key=True),
    Column("doc_id", _DOC_ID, primary_key=True),
    Column("content_hash", String(64), nullable=False),
    Column("chunk_count", Integer, nullable=False),
    Column("marks", LargeBinary, nullable=False),
)

vectors = Table(
    "vectors",
    METADATA,
    Column("embedder", String(64), primary_key=True),
    Column("text_hash", String(64), primary_key=True),
    Column("vector", LargeBinary, nullable=False),  # float32, little-endian
)

catalogues = Table(
    "catalogues",
    METADATA,
    Column("kb_scope", String(256), primary_key=True),
    Column("source", String(400), primary_key=True),
    Column("text", Text, nullable=False),  # a domains.toml
)

traces = Table(
    "traces",
    METADATA,
    Column("lookup_id", String(64), primary_key=True),
    Column("created_at", String(32), nullable=False, index=True),
    Column("trace", JSON, nullable=False),
)

keys = Table(
    "keys",
    METADATA,
    Column("number", Integer, primary_key=True),  # in order of creation
    Column("key_id", String(64), nullable=False, unique=True),
    Column("key_hash", String(64), nullable=False, unique=True),
    Column("kb_scope", String(256), nullable=False),
    Column("role", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("expires_at", String(32), nullable=False),
    Column("revoked_at", String(32), nullable=False),
)
