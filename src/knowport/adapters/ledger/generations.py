"""Generations, and what those hold that are not active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, Row, and_, case, exists, func, literal, or_, select, update

from knowport.adapters.ledger import history
from knowport.adapters.ledger.database import Store, slices, upsert
from knowport.adapters.ledger.marks import packed, unpacked
from knowport.adapters.ledger.tables import built, documents, generations
from knowport.core.wording import counted
from knowport.errors import RebuildError
from knowport.model import BuiltDocument, ChunkMark, EmbedderIdentity, Generation

_NAMED = 5
# Rows that are removed at once: on SQLite lookups wait with their traces meanwhile.
_PORTION = 5_000
# Made once: it is asked for before every write and every second of reading.
_ACTIVE = select(generations).where(generations.c.state == "active")


class GenerationStore(Store):
    """See ``knowport.ports.Ledger``."""

    def active_generation(self) -> Generation | None:
        with self._read() as connection:
            row = connection.execute(_ACTIVE).first()
        return None if row is None else _generation(row)

    def generations(self) -> tuple[Generation, ...]:
        with self._read() as connection:
            rows = connection.execute(select(generations)).all()
        found = [_generation(row) for row in rows]
        # Of one second, g9 comes before g10.
        return tuple(sorted(found, key=lambda g: (g.created_at, len(g.name), g.name)))

    def save_generation(self, generation: Generation) -> None:
        values = {field.name: getattr(generation, field.name) for field in fields(generation)}
        values["embedder"] = asdict(generation.embedder)
        for name in ("analyzer", "chunking", "embedding", "report"):
            values[name] = dict(values[name])
        with self._write() as connection:
            connection.execute(upsert(connection, generations, ["name"]), values)

    def activate(self, name: str, *, activated_at: str, forced: bool) -> None:
        with self._database.write_alone(generations, documents, built) as connection:
            states = dict(connection.execute(select(generations.c.name, generations.c.state)).all())
            if name not in states or states[name] == "dropping":
                raise RebuildError(
                    f"There is no generation {name} to activate.",
                    remedy="See `knowport rebuild status` for those that there are.",
                )
            if states[name] == "active":
                return
            _refuse_difference(connection, name)
            previous = next((other for other, state in states.items() if state == "active"), None)
            if previous is not None:
                _keep_as_built(connection, previous)
            values: dict[str, Any] = {"state": "active", "activated_at": activated_at}
            if forced:  # what was forced once stays so, also after a rollback and back
                values["forced"] = True
            _set(connection, name, **values)
            _take_over(connection, name, activated_at)

    def tidy_up(self) -> None:
        active = self.active_generation()
        if active is None:
            return
        of_active = built.c.generation == active.name
        some = select(built.c.doc_id).where(of_active).limit(_PORTION)
        removed = True
        while removed:
            with self._write() as connection:
                rows = built.delete().where(of_active, built.c.doc_id.in_(some))
                removed = bool(connection.execute(rows).rowcount)
        with self._write() as connection:
            history.drop_oldest(connection, select(documents.c.doc_id))

    def drop_generation(self, name: str) -> None:
        with self._database.write_alone(generations) as connection:
            row = generations.c.name == name
            if connection.execute(select(generations.c.state).where(row)).scalar() == "active":
                raise RebuildError(
                    f"Generation {name} is the active one and cannot be dropped.",
                    remedy="Activate another one first.",
                )
            connection.execute(built.delete().where(built.c.generation == name))
            connection.execute(generations.delete().where(row))

    def built(self, generation: str) -> Mapping[str, str]:
        query = select(built.c.doc_id, built.c.content_hash)
        with self._read() as connection:
            return dict(connection.execute(query.where(built.c.generation == generation)).all())

    def unbuilt(self, generation: str) -> tuple[Sequence[str], Sequence[str]]:
        with self._read() as connection:
            return _changed(connection, generation), _gone(connection, generation)

    def built_chunks(self, generation: str) -> int:
        query = select(func.coalesce(func.sum(built.c.chunk_count), 0))
        with self._read() as connection:
            return int(
                connection.execute(query.where(built.c.generation == generation)).scalar_one()
            )

    def built_marks(
        self, generation: str, doc_ids: Sequence[str]
    ) -> Mapping[str, tuple[ChunkMark, ...]]:
        found: dict[str, tuple[ChunkMark, ...]] = {}
        query = select(built.c.doc_id, built.c.marks).where(built.c.generation == generation)
        with self._read() as connection:
            for some in slices(doc_ids):
                for doc_id, marks in connection.execute(query.where(built.c.doc_id.in_(some))):
                    found[doc_id] = unpacked(marks)
        return found

    def store_built(self, generation: str, documents: Sequence[BuiltDocument]) -> None:
        if not documents:
            return
        rows = [
            {
                "generation": generation,
                "doc_id": document.doc_id,
                "content_hash": document.content_hash,
                "chunk_count": len(document.marks),
                "marks": packed(document.marks),
            }
            for document in documents
        ]
        with self._write() as connection:
            connection.execute(upsert(connection, built, ["generation", "doc_id"]), rows)

    def drop_built(self, generation: str, doc_ids: Sequence[str]) -> None:
        with self._write() as connection:
            for some in slices(doc_ids):
                chosen = and_(built.c.generation == generation, built.c.doc_id.in_(some))
                connection.execute(built.delete().where(chosen))


def _generation(row: Row[Any]) -> Generation:
    values = row._asdict()
    values["embedder"] = EmbedderIdentity(**values["embedder"])
    return Generation(**values)


def _set(connection: Connection, name: str, **values: Any) -> None:
    connection.execute(update(generations).where(generations.c.name == name).values(**values))


def _refuse_difference(connection: Connection, name: str) -> None:
    differing = sorted({*_changed(connection, name), *_gone(connection, name)})
    if differing:
        more = ", ..." if len(differing) > _NAMED else "."
        raise RebuildError(
            f"Generation {name} does not hold what the ledger knows of "
            f"{counted(len(differing), 'document')}: {', '.join(differing[:_NAMED])}{more}",
            remedy="Run the rebuild again: it catches up with what has changed.",
        )


def _changed(connection: Connection, name: str) -> Sequence[str]:
    """Documents that are not built as they stand. One that is being deleted may be built or not,
    because its deletion begins again either way."""
    same = and_(built.c.doc_id == documents.c.doc_id, built.c.generation == name)
    query = (
        select(documents.c.doc_id)
        .outerjoin(built, same)
        .where(
            documents.c.state != "deleting",
            built.c.content_hash.is_distinct_from(documents.c.content_hash),
        )
    )
    return connection.execute(query.order_by(documents.c.doc_id)).scalars().all()


def _gone(connection: Connection, name: str) -> Sequence[str]:
    """What is built of no document, or half built of one that is being deleted."""
    half = and_(documents.c.state == "deleting", built.c.content_hash == "")
    query = (
        select(built.c.doc_id)
        .outerjoin(documents, built.c.doc_id == documents.c.doc_id)
        .where(built.c.generation == name, or_(documents.c.doc_id.is_(None), half))
    )
    return connection.execute(query.order_by(built.c.doc_id)).scalars().all()


def _keep_as_built(connection: Connection, previous: str) -> None:
    """What the active generation holds. Of a document whose write or deletion was interrupted
    only that there is something: no content has the hash ''."""
    whole = case((documents.c.state == "indexed", documents.c.content_hash), else_="")
    values: dict[str, Any] = {
        "generation": literal(previous),
        "doc_id": documents.c.doc_id,
        "content_hash": whole,
        "chunk_count": documents.c.chunk_count,
        "marks": documents.c.marks,
    }
    connection.execute(built.delete().where(built.c.generation == previous))
    connection.execute(built.insert().from_select(list(values), select(*values.values())))
    _set(connection, previous, state="previous")


def _take_over(connection: Connection, name: str, time: str) -> None:
    """What is built for the generation becomes what the documents say, with new versions."""
    taken = update(documents).where(
        documents.c.doc_id == built.c.doc_id, built.c.generation == name
    )
    state = case((documents.c.state == "deleting", "deleting"), else_="indexed")
    connection.execute(
        taken.values(chunk_count=built.c.chunk_count, marks=built.c.marks, state=state)
    )
    rows = exists().where(built.c.doc_id == documents.c.doc_id, built.c.generation == name)
    nothing = update(documents).where(documents.c.state == "deleting", ~rows)
    connection.execute(nothing.values(chunk_count=0, marks=packed(())))
    whole = select(documents.c.doc_id).where(documents.c.state == "indexed")
    history.begin(connection, whole, generation=name, time=time)
