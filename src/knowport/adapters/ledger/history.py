"""Versions of documents: one current at most, and the last ones that it replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, exists, func, literal, or_, select, update

from knowport.adapters.ledger.tables import CURRENT, documents, versions

KEPT = 50
"""Versions of one document that are kept."""


def begin(
    connection: Connection, doc_ids: Sequence[str] | Select[str], *, generation: str, time: str
) -> None:
    """Those documents, as they stand, become current versions.

    One that is the current version already, as after a repair, stays that version.
    """
    changed = exists().where(
        documents.c.doc_id == versions.c.doc_id,
        or_(
            documents.c.content_hash != versions.c.content_hash,
            documents.c.marks != versions.c.marks,
            versions.c.generation != generation,
        ),
    )
    replaced = update(versions).where(CURRENT, versions.c.doc_id.in_(doc_ids), changed)
    connection.execute(replaced.values(until=time, ended_by="replaced"))
    current = exists().where(CURRENT, versions.c.doc_id == documents.c.doc_id)
    values: dict[str, Any] = {
        "doc_id": documents.c.doc_id,
        "kb_scope": documents.c.kb_scope,
        "generation": literal(generation),
        "content_hash": documents.c.content_hash,
        "since": literal(time),
        "until": literal(""),
        "ended_by": literal(""),
        "marks": documents.c.marks,
    }
    new = select(*values.values()).where(documents.c.doc_id.in_(doc_ids), ~current)
    connection.execute(versions.insert().from_select(list(values), new))


def end(connection: Connection, doc_id: str, *, time: str) -> None:
    """The current version of a document ends by its deletion."""
    deleted = update(versions).where(CURRENT, versions.c.doc_id == doc_id)
    connection.execute(deleted.values(until=time, ended_by="deleted"))


def drop_oldest(connection: Connection, doc_ids: Sequence[str] | Select[str]) -> None:
    """Of each of those documents leave the last ``KEPT`` versions."""
    newer = func.row_number().over(
        partition_by=versions.c.doc_id, order_by=versions.c.number.desc()
    )
    counted = (
        select(versions.c.number, newer.label("place"))
        .where(versions.c.doc_id.in_(doc_ids))
        .subquery()
    )
    old = select(counted.c.number).where(counted.c.place > KEPT)
    connection.execute(versions.delete().where(versions.c.number.in_(old)))
