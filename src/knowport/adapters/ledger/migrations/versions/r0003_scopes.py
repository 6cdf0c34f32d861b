"""The scope that each version of a document stood in."""

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
