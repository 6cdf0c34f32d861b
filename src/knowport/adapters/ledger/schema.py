"""Brings the tables of a database to what this Knowport works with.

A new database gets all tables at once; an older one is migrated by the scripts in ``migrations``,
in the transaction that no other process opens the ledger in. A ledger from before there were
scripts has no version and counts as the first.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table, func, inspect, select

from knowport.adapters.ledger.database import Database
from knowport.adapters.ledger.tables import METADATA, generations
from knowport.errors import ConfigurationError, LedgerError

HEAD = "0003"
"""The version of ``tables``: the last script in ``migrations``."""

_FIRST = "0001"
# Any number that no other user of the database takes for its advisory lock.
_CREATE_LOCK = 0x6B6E6F77

# As Alembic makes it. Not part of METADATA, which scripts are compared with.
_version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


def bring_up(database: Database) -> None:
    """Create or migrate the tables where needed.

    Raises ConfigurationError for a ledger of a newer Knowport and for a database of another
    program, LedgerError for an older ledger that can only be read.
    """
    with database.read() as connection:
        stored = _stored(connection, database)
    if stored == HEAD:
        return
    if database.read_only:
        older = "was written by an older Knowport and cannot be brought up to date"
        problem = older if stored else "has no tables yet and cannot get them"
        raise LedgerError(
            f"The ledger {database.where} {problem}: it is not writable.",
            remedy="Open it once where its file and its folder are writable.",
        )
    with database.write_alone() as connection:
        if database.file is None:
            connection.execute(select(func.pg_advisory_xact_lock(_CREATE_LOCK)))
        stored = _stored(connection, database)  # another process may have been quicker
        if stored is None:
            METADATA.create_all(connection)
            _stamp(connection, HEAD)
        elif stored != HEAD:
            if not inspect(connection).has_table(_version.name):
                _stamp(connection, stored)
            # Importing Alembic takes longer than all the rest of a start.
            from knowport.adapters.ledger.migrations import upgrade  # noqa: PLC0415

            upgrade(connection)


def _stored(connection: Connection, database: Database) -> str | None:
    """The version of the database; None for a new one. A file is the ledger's alone; tables on a
    server may stand beside those of others."""
    tables, where = inspect(connection), database.where
    # Ours last: another process may make all of them between two questions.
    others = database.file is not None and bool(tables.get_table_names())
    versioned = tables.has_table(_version.name)
    ours = tables.has_table(generations.name)
    if (others or versioned) and not ours:
        raise ConfigurationError(
            f"The ledger {where} is the database of another program: it has tables, and not those "
            "of a ledger.",
            remedy="Name another home (KNOWPORT_HOME) or another ledger.url, or move what is there "
            "away if a ledger should be there.",
        )
    stored: str | None = _FIRST if ours else None
    if versioned:
        stored = connection.execute(select(_version.c.version_num)).scalar_one()
    if stored is not None and stored > HEAD:
        raise ConfigurationError(
            f"The ledger {where} was written by a newer Knowport: its version is {stored}, and "
            f"this Knowport knows it up to {HEAD}.",
            remedy="Upgrade Knowport, or use another home (KNOWPORT_HOME).",
        )
    return stored


def _stamp(connection: Connection, version: str) -> None:
    _version.create(connection)
    connection.execute(_version.insert().values(version_num=version))
