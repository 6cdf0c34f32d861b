"""The scopes of the versions of documents, and of domain catalogues."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("versions") as batch:
        batch.add_column(sa.Column("kb_scope", sa.String(256), nullable=False, server_default=""))
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("versions", "kb_scope", server_default=None)
    # The hash covers the scope. Of what has another one, nothing tells it any more.
    op.execute(
        "UPDATE versions SET kb_scope = coalesce((SELECT d.kb_scope FROM documents d"
        " WHERE d.doc_id = versions.doc_id AND d.content_hash = versions.content_hash), '')"
    )

    op.rename_table("catalogues", "old_catalogues")
    op.create_table(
        "catalogues",
        sa.Column("kb_scope", sa.String(256), nullable=False),
        sa.Column("source", sa.String(400), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("kb_scope", "source", name="scoped_catalogues_pkey"),
    )
    # A source whose documents stand in several scopes had one catalogue for all of them.
    op.execute(
        "INSERT INTO catalogues (kb_scope, source, text)"
        " SELECT DISTINCT coalesce(d.kb_scope, 'default'), c.source, c.text"
        " FROM old_catalogues c LEFT JOIN documents d ON d.source = c.source"
    )
    op.drop_table("old_catalogues")
