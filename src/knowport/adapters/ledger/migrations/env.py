"""Run by Alembic: the scripts run on the connection that is at hand, in its transaction."""

from __future__ import annotations

from alembic import context

from knowport.adapters.ledger.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
