"""Tables of the ledger."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

METADATA = MetaData()

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
    Column("active", Boolean, nullable=False),
    Column("created_at", String(32), nullable=False),
)

documents = Table(
    "documents",
    METADATA,
    Column("doc_id", String(400), primary_key=True),
    Column("source", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("category", String(256), nullable=False),
    Column("kb_scope", String(256), nullable=False),
    Column("text", Text, nullable=False),
    Column("text_format", String(16), nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("chunk_count", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Index("documents_by_scope", "kb_scope", "category"),
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
