"""The ledger port over SQLAlchemy Core: SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Select,
    create_engine,
    event,
    func,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from knowport.adapters.ledger.tables import (
    METADATA,
    catalogues,
    documents,
    generations,
    traces,
    vectors,
)
from knowport.errors import ConfigurationError, LedgerError
from knowport.model import (
    Document,
    DocumentInfo,
    EmbedderIdentity,
    Generation,
    Metadata,
    Vector,
)

# SQLite takes 32,766 variables in a statement; a cache look-up stays well below.
_LOOKUP_ROWS = 500
_BUSY_SECONDS = 10
_DAYS_BEFORE_ANY_TRACE = 365_000  # a date goes no further back than to the year 1
# Any number that no other user of the database takes for its advisory lock.
_CREATE_LOCK = 0x6B6E6F77
_FLOAT32 = np.dtype("<f4")
_INFO: list[Any] = [column for column in documents.c if column.name not in {"text", "text_format"}]
_CANNOT_BE_STORED = re.compile("[\0\ud800-\udfff]")


class SqlLedger:
    """See ``knowport.ports.Ledger``. Safe to use from several threads."""

    def __init__(self, url: str | URL) -> None:
        """Open, and create the tables where missing. Raises ConfigurationError, LedgerError."""
        try:
            parsed = _parsed(url)
            # A password may also stand in the query.
            self._where = parsed.set(query={}).render_as_string(hide_password=True)
            if parsed.get_backend_name() == "sqlite" and parsed.database:
                Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
            self._engine = _engine(parsed)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"ledger.url needs a driver that is not installed: {error.name}.",
                remedy="Install it: pip install 'knowport[postgres]'.",
            ) from error
        except NoSuchModuleError as error:
            raise _unusable(str(error)) from error
        except OSError as error:
            raise ConfigurationError(
                f"The folder of the ledger cannot be made: {error}.",
                remedy="Choose another home (KNOWPORT_HOME) or mend its permissions.",
            ) from error
        with self._begin() as connection:
            _wait_for_other_creators(connection)
            METADATA.create_all(connection)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            raise LedgerError(
                f"The ledger {self._where} failed: {' '.join(str(cause).split())[:300]}.",
                remedy="Check that it can be reached and written, and that its disk has room.",
            ) from error

    # -- generations ------------------------------------------------------------------------

    def active_generation(self) -> Generation | None:
        with self._begin() as connection:
            query = select(generations).where(generations.c.active)
            row = connection.execute(query).mappings().first()
        if row is None:
            return None
        return Generation(
            name=row["name"],
            collection=row["collection"],
            embedder=EmbedderIdentity(**row["embedder"]),
            analyzer=row["analyzer"],
            schema_version=row["schema_version"],
            lexical=row["lexical"],
            proved_on=row["proved_on"],
            created_at=row["created_at"],
        )

    def add_generation(self, generation: Generation) -> None:
        values = {**asdict(generation), "active": True}
        with self._begin() as connection:
            connection.execute(update(generations).values(active=False))
            connection.execute(_upsert(connection, generations, ["name"]), values)

    # -- documents --------------------------------------------------------------------------

    def document(self, doc_id: str) -> DocumentInfo | None:
        row = self._document_row(doc_id, _INFO)
        return None if row is None else DocumentInfo(**row)

    def document_text(self, doc_id: str) -> Document | None:
        row = self._document_row(doc_id, list(documents.c))
        if row is None:
            return None
        return Document(
            doc_id=row["doc_id"],
            source=row["source"],
            title=row["title"],
            category=row["category"],
            kb_scope=row["kb_scope"],
            text=row["text"],
            text_format=row["text_format"],
            content_hash=row["content_hash"],
            metadata=row["metadata"],
        )

    def _document_row(self, doc_id: str, columns: list[Any]) -> Mapping[str, Any] | None:
        if _CANNOT_BE_STORED.search(doc_id):  # so there is none; the databases would fail
            return None
        query = select(*columns).where(documents.c.doc_id == doc_id)
        with self._begin() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else dict(row)

    def documents(
        self, *, kb_scope: str | None = None, category: str | None = None
    ) -> tuple[DocumentInfo, ...]:
        query = select(*_INFO)
        if kb_scope is not None:
            query = query.where(documents.c.kb_scope == kb_scope)
        if category is not None:
            query = query.where(documents.c.category == category)
        return self._infos(query)

    def categories(self, kb_scope: str) -> tuple[str, ...]:
        query = (
            select(documents.c.category)
            .where(documents.c.kb_scope == kb_scope, documents.c.category != "")
            .distinct()
        )
        with self._begin() as connection:
            return tuple(sorted(connection.execute(query).scalars()))

    def infos(self, doc_ids: Sequence[str]) -> Mapping[str, DocumentInfo]:
        query = select(*_INFO).where(documents.c.doc_id.in_(doc_ids))
        return {info.doc_id: info for info in self._infos(query)}

    def begin_writes(self, writes: Sequence[tuple[Document, int]]) -> None:
        rows = [
            {
                **asdict(document),
                "metadata": dict(document.metadata),
                "chunk_count": chunk_count,
                "state": "writing",
                "updated_at": _now(),
            }
            for document, chunk_count in writes
        ]
        with self._begin() as connection:
            connection.execute(_upsert(connection, documents, ["doc_id"]), rows)

    def commit_writes(self, doc_ids: Sequence[str]) -> None:
        self._set_states(doc_ids, "indexed")

    def reopen_writes(self, doc_ids: Sequence[str]) -> None:
        self._set_states(doc_ids, "writing")

    def _set_states(self, doc_ids: Sequence[str], state: str) -> None:
        with self._begin() as connection:
            for start in range(0, len(doc_ids), _LOOKUP_ROWS):
                some = doc_ids[start : start + _LOOKUP_ROWS]
                change = update(documents).where(documents.c.doc_id.in_(some))
                connection.execute(change.values(state=state, updated_at=_now()))

    def begin_delete(self, doc_id: str) -> None:
        self._set_states([doc_id], "deleting")

    def commit_delete(self, doc_id: str) -> None:
        with self._begin() as connection:
            connection.execute(documents.delete().where(documents.c.doc_id == doc_id))

    def unfinished(self) -> tuple[DocumentInfo, ...]:
        return self._infos(select(*_INFO).where(documents.c.state != "indexed"))

    def _infos(self, query: Select[Any]) -> tuple[DocumentInfo, ...]:
        with self._begin() as connection:
            infos = [DocumentInfo(**row) for row in connection.execute(query).mappings()]
        # Sorted here because the collation of a database decides its order.
        return tuple(sorted(infos, key=lambda info: info.doc_id))

    # -- catalogues and traces --------------------------------------------------------------

    def catalogues(self) -> Mapping[str, str]:
        with self._begin() as connection:
            rows = connection.execute(select(catalogues.c.source, catalogues.c.text)).all()
        return dict(sorted((source, text) for source, text in rows))

    def store_catalogue(self, source: str, text: str | None) -> None:
        with self._begin() as connection:
            if text is None:
                connection.execute(catalogues.delete().where(catalogues.c.source == source))
            else:
                values = {"source": source, "text": text}
                connection.execute(_upsert(connection, catalogues, ["source"]), values)

    def store_trace(self, lookup_id: str, trace: Metadata) -> None:
        # To the microsecond, so that of traces of one second the newest is known.
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        values = {"lookup_id": lookup_id, "created_at": now, "trace": dict(trace)}
        with self._begin() as connection:
            connection.execute(traces.insert().values(values))

    def trace(self, lookup_id: str) -> Metadata | None:
        if _CANNOT_BE_STORED.search(lookup_id):
            return None
        query = select(traces.c.trace).where(traces.c.lookup_id == lookup_id)
        with self._begin() as connection:
            found: Metadata | None = connection.execute(query).scalar()
        return found

    def prune_traces(self, *, max_age_days: int, max_count: int) -> int:
        age = timedelta(days=min(max_age_days, _DAYS_BEFORE_ANY_TRACE))
        oldest = (datetime.now(UTC) - age).isoformat(timespec="microseconds")
        newest = select(traces.c.lookup_id).order_by(traces.c.created_at.desc(), traces.c.lookup_id)
        with self._begin() as connection:
            # `<=`: a limit of 0 days keeps none, also within the tick that one was made in.
            by_age = traces.delete().where(traces.c.created_at <= oldest)
            by_count = traces.delete().where(traces.c.lookup_id.not_in(newest.limit(max_count)))
            return connection.execute(by_age).rowcount + connection.execute(by_count).rowcount

    # -- embedding cache --------------------------------------------------------------------

    def cached_vectors(
        self, embedder: EmbedderIdentity, hashes: Sequence[str]
    ) -> Mapping[str, Vector]:
        key = _embedder_key(embedder)
        found: dict[str, Vector] = {}
        with self._begin() as connection:
            for start in range(0, len(hashes), _LOOKUP_ROWS):
                query = select(vectors.c.text_hash, vectors.c.vector).where(
                    vectors.c.embedder == key,
                    vectors.c.text_hash.in_(hashes[start : start + _LOOKUP_ROWS]),
                )
                for text_hash, blob in connection.execute(query):
                    found[text_hash] = np.frombuffer(blob, dtype=_FLOAT32).astype(np.float32)
        return found

    def store_vectors(self, embedder: EmbedderIdentity, new: Mapping[str, Vector]) -> None:
        if not new:
            return
        key = _embedder_key(embedder)
        rows = [
            {"embedder": key, "text_hash": name, "vector": vector.astype(_FLOAT32).tobytes()}
            for name, vector in new.items()
        ]
        with self._begin() as connection:
            insert = _dialect(connection).insert(vectors).on_conflict_do_nothing()
            connection.execute(insert, rows)


def _parsed(url: str | URL) -> URL:
    # What the parser says may quote a part of the URL, and so of the password.
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise _unusable("it is not a URL, or has characters that must be percent-encoded") from None
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise _unusable(f"{parsed.get_backend_name()} is not supported")
    return parsed


def _unusable(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"ledger.url cannot be used: {problem}.",
        remedy="Use sqlite:///file or postgresql+psycopg://user:password@host/database.",
    )


def _engine(url: URL) -> Engine:
    engine = create_engine(url, pool_pre_ping=True)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def _prepare(connection: Any, _record: Any) -> None:
            connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
            _use_wal(connection)
            connection.execute("PRAGMA synchronous=NORMAL")

    return engine


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


def _wait_for_other_creators(connection: Connection) -> None:
    """Until the transaction ends no other process can create tables."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(select(func.pg_advisory_xact_lock(_CREATE_LOCK)))


def _dialect(connection: Connection) -> Any:
    return sqlite if connection.dialect.name == "sqlite" else postgresql


def _upsert(connection: Connection, table: Any, keys: list[str]) -> Any:
    insert = _dialect(connection).insert(table)
    changed = {c.name: insert.excluded[c.name] for c in table.c if c.name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=changed)


def _embedder_key(embedder: EmbedderIdentity) -> str:
    return hashlib.sha256(json.dumps(asdict(embedder), sort_keys=True).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
