"""The database below the ledger: SQLite or PostgreSQL, and transactions in it."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, NullPool, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from knowport.adapters.disk import says_full
from knowport.adapters.ledger.failures import full, read_only, translated
from knowport.errors import ConfigurationError

_T = TypeVar("_T")

_BUSY_SECONDS = 10.0
# SQLite takes 32,766 variables in a statement; no statement here comes near.
_SLICE = 500


class Database:
    """Connections to one database. Safe to use from several threads, and after a fork.

    ``where`` names it without its password, ``identity`` is the same for all that is open of it.
    ``file`` is None on PostgreSQL. With ``read_only`` nothing can be written, because the file or
    its folder is not writable.
    """

    def __init__(self, url: str | URL) -> None:
        """Raises ConfigurationError, and LedgerFull where there is no room for its folder. No
        connection is made yet."""
        parsed = _parsed(url)
        # A password may also stand in the query.
        self.where = parsed.set(query={}).render_as_string(hide_password=True)
        self.file = Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None
        if self.file is not None:
            self.where = str(self.file.absolute())
        self.identity = str(self.file.resolve()) if self.file else str(parsed)
        self.read_only = False
        try:
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self.read_only = self.file.is_file() and not _writable(self.file)
            self.engine = _engine(parsed, self.file, read_only=self.read_only)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"ledger.url needs a driver that is not installed: {error.name}.",
                remedy="Install it: pip install 'knowport[postgres]'.",
            ) from error
        except NoSuchModuleError as error:
            raise _unusable(str(error)) from error
        except OSError as error:
            if says_full(error):
                raise full(self.where, self.file) from error
            raise ConfigurationError(
                f"The folder of the ledger cannot be made: {error}.",
                remedy="Choose another home (KNOWPORT_HOME) or mend its permissions.",
            ) from error
        _OPEN.add(self)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to read with; each statement sees what is committed by then."""
        with translated(self.where, self.file), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction, committed at the end; on SQLite it begins with its first change."""
        if self.read_only:
            raise read_only(self.where)
        with translated(self.where, self.file), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write_alone(self, *tables: Table) -> Iterator[Connection]:
        """A transaction in which nobody else changes those tables, also while it only reads."""
        with self.write() as connection:
            if self.file is not None:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            elif tables:
                names = ", ".join(table.name for table in tables)
                connection.exec_driver_sql(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")
            yield connection


class Store:
    """A part of the ledger over its database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read = database.read
        self._write = database.write


def upsert(connection: Connection, table: Table, keys: list[str]) -> Any:
    """An insert that writes over the row of the same keys."""
    insert = insert_into(connection, table)
    changed = {c.name: insert.excluded[c.name] for c in table.c if c.name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=changed)


def insert_into(connection: Connection, table: Table) -> Any:
    """An insert that knows ``on_conflict``."""
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)


def slices(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Items in portions that a statement can name."""
    for start in range(0, len(items), _SLICE):
        yield items[start : start + _SLICE]


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _parsed(url: str | URL) -> URL:
    # What the parser says may quote a part of the URL, and so of the password.
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise _unusable("it is not a URL, or has characters that must be percent-encoded") from None
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise _unusable(f"{parsed.get_backend_name()} is not supported")
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise _unusable("SQLite needs a file")
    return parsed


def _unusable(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"ledger.url cannot be used: {problem}.",
        remedy="Use sqlite:///file or postgresql+psycopg://user:password@host/database.",
    )


def _engine(url: URL, file: Path | None, *, read_only: bool) -> Engine:
    if file is None:
        return create_engine(url, pool_pre_ping=True)
    if read_only:
        # No pool: how a file can be read is a question of each moment.
        return create_engine(url, creator=lambda: _connect_read_only(file), poolclass=NullPool)
    # IMMEDIATE: a transaction that begins as a reader cannot always become a writer.
    engine = create_engine(url, connect_args={"isolation_level": "IMMEDIATE"})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout={int(_BUSY_SECONDS * 1000)}")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        # 16 MB: under ingest, pages of the embedding cache go into the file once, not each time.
        connection.execute("PRAGMA wal_autocheckpoint=4000")

    return engine


def _writable(file: Path) -> bool:
    return all(os.access(path, os.W_OK, effective_ids=True) for path in (file, file.parent))


def _connect_read_only(file: Path) -> sqlite3.Connection:
    # Without its log (of a writer that lives, or was killed) a file in WAL mode can be opened
    # only where a log can be made, or as one that nobody changes.
    log = file.with_name(f"{file.name}-wal")
    how = "mode=ro" if log.exists() else "immutable=1"
    return sqlite3.connect(
        f"file:{quote(str(file))}?{how}", uri=True, check_same_thread=False, timeout=_BUSY_SECONDS
    )


def _use_wal(connection: Any) -> None:
    """WAL lets readers go on while one writes, and survives kill -9."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:  # SQLite itself does not wait for this switch
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()


def _forget_connections() -> None:
    """Connections are the parent's: two processes on one would break it."""
    for database in _OPEN:
        database.engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_connections)
