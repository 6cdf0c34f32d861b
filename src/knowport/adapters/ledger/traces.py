"""Domain catalogues, and traces of lookups."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from knowport.adapters.ledger.database import Store, upsert
from knowport.adapters.ledger.documents import storable
from knowport.adapters.ledger.tables import catalogues, traces
from knowport.model import Metadata

_INSERT = traces.insert()  # made once, for every lookup
_DAYS_BEFORE_ANY_TRACE = 365_000  # a date goes no further back than to the year 1


class TraceStore(Store):
    """See ``knowport.ports.Ledger``."""

    def catalogues(self) -> Mapping[str, Mapping[str, str]]:
        columns = (catalogues.c.kb_scope, catalogues.c.source, catalogues.c.text)
        with self._read() as connection:
            rows = connection.execute(select(*columns)).all()
        found: dict[str, dict[str, str]] = {}
        for scope, source, text in sorted(map(tuple, rows)):
            found.setdefault(scope, {})[source] = text
        return found

    def store_catalogue(self, source: str, text: str | None, *, kb_scope: str) -> None:
        key = {"kb_scope": kb_scope, "source": source}
        with self._write() as connection:
            if text is None:
                mine = (catalogues.c[name] == value for name, value in key.items())
                connection.execute(catalogues.delete().where(*mine))
            else:
                write = upsert(connection, catalogues, list(key))
                connection.execute(write, {**key, "text": text})

    def store_trace(self, lookup_id: str, trace: Metadata) -> None:
        # To the microsecond, so that of traces of one second the newest is known.
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        values = {"lookup_id": lookup_id, "created_at": now, "trace": dict(trace)}
        with self._write() as connection:
            connection.execute(_INSERT, values)

    def trace(self, lookup_id: str) -> Metadata | None:
        if not storable(lookup_id):
            return None
        query = select(traces.c.trace).where(traces.c.lookup_id == lookup_id)
        with self._read() as connection:
            found: Metadata | None = connection.execute(query).scalar()
        return found

    def prune_traces(self, *, max_age_days: int, max_count: int) -> int:
        age = timedelta(days=min(max_age_days, _DAYS_BEFORE_ANY_TRACE))
        oldest = (datetime.now(UTC) - age).isoformat(timespec="microseconds")
        newest_first = (traces.c.created_at.desc(), traces.c.lookup_id)
        too_many = select(traces.c.lookup_id).order_by(*newest_first).offset(max_count)
        with self._write() as connection:
            # `<=`: a limit of 0 days keeps none, also within the tick that one was made in.
            by_age = traces.delete().where(traces.c.created_at <= oldest)
            by_count = traces.delete().where(traces.c.lookup_id.in_(too_many))
            return connection.execute(by_age).rowcount + connection.execute(by_count).rowcount
