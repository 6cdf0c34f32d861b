"""States of generations, histories of documents, access keys; texts in a table of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_DOC_ID = sa.String(400).with_variant(sa.VARCHAR(400, collation="C"), "postgresql")


def upgrade() -> None:
    _generations()
    _documents()
    _versions()
    _built()
    _keys()


def _generations() -> None:
    with op.batch_alter_table("generations") as batch:
        batch.add_column(sa.Column("chunking", sa.JSON))
        batch.add_column(sa.Column("embedding", sa.JSON))
        batch.add_column(sa.Column("state", sa.String(16)))
        batch.add_column(sa.Column("activated_at", sa.String(32)))
        batch.add_column(sa.Column("report", sa.JSON))
        batch.add_column(sa.Column("forced", sa.Boolean))
    op.execute(
        "UPDATE generations SET chunking = '{}', embedding = '{}', report = '{}', forced = false,"
        " state = CASE WHEN active THEN 'active' ELSE 'previous' END, activated_at = created_at"
    )
    with op.batch_alter_table("generations") as batch:
        batch.drop_column("active")
        for name in ("chunking", "embedding", "state", "activated_at", "report", "forced"):
            batch.alter_column(name, nullable=False)
    active = sa.text("state = 'active'")
    op.create_index(
        "generations_one_active",
        "generations",
        ["state"],
        unique=True,
        sqlite_where=active,
        postgresql_where=active,
    )


def _documents() -> None:
    op.create_table(
        "texts",
        sa.Column("doc_id", _DOC_ID, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO texts (doc_id, text) SELECT doc_id, text FROM documents")
    sqlite = op.get_bind().dialect.name == "sqlite"
    nothing = sa.text("x''" if sqlite else "''")
    with op.batch_alter_table("documents") as batch:
        batch.drop_column("text")
        batch.add_column(sa.Column("file_hash", sa.String(64), nullable=False, server_default=""))
        batch.add_column(sa.Column("marks", sa.LargeBinary, nullable=False, server_default=nothing))
    if not sqlite:
        op.alter_column("documents", "doc_id", type_=sa.VARCHAR(400, collation="C"))
        op.alter_column("documents", "file_hash", server_default=None)
        op.alter_column("documents", "marks", server_default=None)
    op.drop_index("documents_by_scope", "documents")
    op.create_index("documents_by_scope", "documents", ["kb_scope", "doc_id"])
    op.create_index("documents_by_category", "documents", ["kb_scope", "category", "doc_id"])
    unfinished = sa.text("state != 'indexed'")
    op.create_index(
        "documents_unfinished",
        "documents",
        ["doc_id"],
        sqlite_where=unfinished,
        postgresql_where=unfinished,
    )


def _versions() -> None:
    op.create_table(
        "versions",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("doc_id", _DOC_ID, nullable=False),
        sa.Column("generation", sa.String(32), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("since", sa.String(32), nullable=False),
        sa.Column("until", sa.String(32), nullable=False),
        sa.Column("ended_by", sa.String(16), nullable=False),
        sa.Column("marks", sa.LargeBinary, nullable=False),
    )
    op.create_index("versions_by_document", "versions", ["doc_id", "number"])
    current = sa.text("until = ''")
    op.create_index(
        "versions_one_current",
        "versions",
        ["doc_id"],
        unique=True,
        sqlite_where=current,
        postgresql_where=current,
    )
    op.execute(
        "INSERT INTO versions"
        " (doc_id, generation, content_hash, since, until, ended_by, marks)"
        " SELECT d.doc_id, g.name, d.content_hash, d.updated_at, '', '', d.marks"
        " FROM documents d JOIN generations g ON g.state = 'active' WHERE d.state = 'indexed'"
    )


def _built() -> None:
    op.create_table(
        "built",
        sa.Column("generation", sa.String(32), primary_key=True),
        sa.Column("doc_id", _DOC_ID, primary_key=True),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("chunk_count", sa.Integer, nullable=False),
        sa.Column("marks", sa.LargeBinary, nullable=False),
    )


def _keys() -> None:
    op.create_table(
        "keys",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("key_id", sa.String(64), nullable=False, unique=True),
        sa.Column("key_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("kb_scope", sa.String(256), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("expires_at", sa.String(32), nullable=False),
        sa.Column("revoked_at", sa.String(32), nullable=False),
    )
