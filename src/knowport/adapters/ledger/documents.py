"""Documents and their texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select, update

from knowport.adapters.ledger import history
from knowport.adapters.ledger.database import Store, now, slices, upsert
from knowport.adapters.ledger.marks import packed, unpacked
from knowport.adapters.ledger.tables import UNFINISHED, documents, generations, texts, versions
from knowport.errors import GenerationChanged
from knowport.model import (
    ChunkMark,
    Document,
    DocumentInfo,
    DocumentState,
    DocumentVersion,
    PlannedWrite,
)

_INFO: list[Any] = [documents.c[each.name] for each in fields(DocumentInfo)]
_DOCUMENT: list[Any] = [
    *(c for c in documents.c if c.name not in {"chunk_count", "state", "updated_at", "marks"}),
    texts.c.text,
]
_CANNOT_BE_STORED = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> bool:
    """Whether a database takes it; what none takes is in none, and looking for it would fail."""
    return not _CANNOT_BE_STORED.search(text)


class DocumentStore(Store):
    """See ``knowport.ports.Ledger``."""

    def document(self, doc_id: str) -> DocumentInfo | None:
        row = self._row(doc_id, select(*_INFO))
        return None if row is None else DocumentInfo(**row)

    def document_text(self, doc_id: str) -> Document | None:
        joined = documents.join(texts, texts.c.doc_id == documents.c.doc_id)
        row = self._row(doc_id, select(*_DOCUMENT).select_from(joined))
        return None if row is None else Document(**row)

    def _row(self, doc_id: str, query: Select[Any]) -> dict[str, Any] | None:
        if not storable(doc_id):
            return None
        with self._read() as connection:
            found = connection.execute(query.where(documents.c.doc_id == doc_id)).mappings().first()
        return None if found is None else dict(found)

    def documents(
        self, *, kb_scope: str | None = None, category: str | None = None
    ) -> tuple[DocumentInfo, ...]:
        return self._infos(_filtered(kb_scope, category))

    def documents_page(
        self, *, kb_scope: str, category: str | None, after: str, limit: int
    ) -> tuple[DocumentInfo, ...]:
        query = _filtered(kb_scope, category).where(documents.c.doc_id > after)
        return self._infos(query.limit(limit))

    def categories(self, kb_scope: str) -> tuple[str, ...]:
        query = (
            select(documents.c.category)
            .where(documents.c.kb_scope == kb_scope, documents.c.category != "")
            .distinct()
        )
        with self._read() as connection:
            return tuple(sorted(connection.execute(query).scalars()))

    def infos(self, doc_ids: Sequence[str]) -> Mapping[str, DocumentInfo]:
        found: dict[str, DocumentInfo] = {}
        for some in slices(doc_ids):
            query = select(*_INFO).where(documents.c.doc_id.in_(some))
            found |= {info.doc_id: info for info in self._infos(query)}
        return found

    def unfinished(self) -> tuple[DocumentInfo, ...]:
        return self._infos(select(*_INFO).where(UNFINISHED))

    def _infos(self, query: Select[Any]) -> tuple[DocumentInfo, ...]:
        with self._read() as connection:
            rows = connection.execute(query.order_by(documents.c.doc_id))
            return tuple(DocumentInfo(*row) for row in rows)

    def marks(self, doc_ids: Sequence[str]) -> Mapping[str, tuple[ChunkMark, ...]]:
        found: dict[str, tuple[ChunkMark, ...]] = {}
        with self._read() as connection:
            for some in slices(doc_ids):
                query = select(documents.c.doc_id, documents.c.marks)
                for doc_id, data in connection.execute(query.where(documents.c.doc_id.in_(some))):
                    found[doc_id] = unpacked(data)
        return found

    # -- writing ------------------------------------------------------------------------------

    def begin_writes(self, writes: Sequence[PlannedWrite]) -> None:
        if not writes:
            return
        time = now()
        rows = [_row(write, time) for write in writes]
        contents = [{"doc_id": w.document.doc_id, "text": w.document.text} for w in writes]
        with self._write() as connection:
            connection.execute(upsert(connection, documents, ["doc_id"]), rows)
            connection.execute(upsert(connection, texts, ["doc_id"]), contents)

    def commit_writes(self, doc_ids: Sequence[str], *, generation: str) -> None:
        time = now()
        with self._write() as connection:
            for some in slices(doc_ids):
                change = update(documents).where(documents.c.doc_id.in_(some))
                connection.execute(change.values(state="indexed", updated_at=time))
                history.begin(connection, some, generation=generation, time=time)
                history.drop_oldest(connection, some)
            # Last, so that it waits for a switch that is under way.
            _refuse_other_generation(connection, generation)

    def touch_files(self, file_hashes: Mapping[str, str]) -> None:
        if not file_hashes:
            return
        change = (
            update(documents)
            .where(documents.c.doc_id == bindparam("id"))
            .values(file_hash=bindparam("hash"))
        )
        with self._write() as connection:
            connection.execute(change, [{"id": i, "hash": h} for i, h in file_hashes.items()])

    def reopen_writes(self, doc_ids: Sequence[str]) -> None:
        self._set_states(doc_ids, "writing", of=("indexed",))

    def begin_delete(self, doc_id: str) -> None:
        self._set_states([doc_id], "deleting", of=("indexed", "writing", "deleting"))

    def _set_states(
        self, doc_ids: Sequence[str], state: DocumentState, *, of: Sequence[DocumentState]
    ) -> None:
        with self._write() as connection:
            for some in slices(doc_ids):
                those = documents.c.doc_id.in_(some), documents.c.state.in_(of)
                change = update(documents).where(*those)
                connection.execute(change.values(state=state, updated_at=now()))

    def commit_delete(self, doc_id: str) -> None:
        with self._write() as connection:
            history.end(connection, doc_id, time=now())
            connection.execute(texts.delete().where(texts.c.doc_id == doc_id))
            connection.execute(documents.delete().where(documents.c.doc_id == doc_id))

    def versions(self, doc_id: str, *, kb_scope: str | None = None) -> tuple[DocumentVersion, ...]:
        if not storable(doc_id):
            return ()
        columns = [column for column in versions.c if column.name not in {"number", "kb_scope"}]
        query = select(*columns).where(versions.c.doc_id == doc_id)
        if kb_scope is not None:
            query = query.where(versions.c.kb_scope == kb_scope)
        with self._read() as connection:
            rows = connection.execute(query.order_by(versions.c.number.desc())).mappings()
            return tuple(
                DocumentVersion(**{**row, "marks": unpacked(row["marks"])}) for row in rows
            )


def _filtered(kb_scope: str | None, category: str | None) -> Select[Any]:
    query = select(*_INFO)
    if kb_scope is not None:
        query = query.where(documents.c.kb_scope == kb_scope)
    if category is not None:
        query = query.where(documents.c.category == category)
    return query


def _row(write: PlannedWrite, time: str) -> dict[str, Any]:
    document = write.document
    return {
        "doc_id": document.doc_id,
        "source": document.source,
        "title": document.title,
        "category": document.category,
        "kb_scope": document.kb_scope,
        "text_format": document.text_format,
        "content_hash": document.content_hash,
        "metadata": dict(document.metadata),
        "chunk_count": len(write.marks),
        "state": "writing",
        "updated_at": time,
        "file_hash": document.file_hash,
        "marks": packed(write.marks),
    }


def _refuse_other_generation(connection: Connection, generation: str) -> None:
    """Raises GenerationChanged where another generation is active: whoever writes holds a lock
    that keeps a switch away, but a lost session of PostgreSQL loses the lock with it."""
    query = select(generations.c.name).where(generations.c.state == "active")
    active = connection.execute(query).scalar()
    if active not in (None, generation):
        raise GenerationChanged(
            f"Generation {generation} is not the active one any more.", remedy="Begin again."
        )
