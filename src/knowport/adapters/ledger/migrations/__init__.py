"""Migrations of the ledger, with Alembic."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for these scripts on that connection."""
    config = Config()
    config.set_main_option("script_location", f"{__name__}:")
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection) -> None:
    """Run every script that the database has not had, inside the transaction at hand."""
    command.upgrade(configuration(connection), "head")
