"""The tables before there were migrations: a ledger without a version has these."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "generations",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("collection", sa.String(255), nullable=False),
        sa.Column("embedder", sa.JSON, nullable=False),
        sa.Column("analyzer", sa.JSON, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("lexical", sa.Boolean, nullable=False),
        sa.Column("proved_on", sa.String(100), nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("doc_id", sa.String(400), primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("category", sa.String(256), nullable=False),
        sa.Column("kb_scope", sa.String(256), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("text_format", sa.String(16), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("chunk_count", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_index("documents_by_scope", "documents", ["kb_scope", "category"])
    op.create_table(
        "vectors",
        sa.Column("embedder", sa.String(64), primary_key=True),
        sa.Column("text_hash", sa.String(64), primary_key=True),
        sa.Column("vector", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "catalogues",
        sa.Column("source", sa.String(400), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "traces",
        sa.Column("lookup_id", sa.String(64), primary_key=True),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("trace", sa.JSON, nullable=False),
    )
    op.create_index("ix_traces_created_at", "traces", ["created_at"])
