"""A generation in memory: both ports, rows that a test may spoil, and writes that may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from knowport.core.identity import parse_evidence_key
from knowport.errors import InvalidInput
from knowport.model import IndexedChunk, Scores, SearchHit, SearchRequest, StoredRow


@dataclass(frozen=True)
class Held:
    """A row; ``words`` is what the lexical leg knows of it."""

    id: str
    item: IndexedChunk
    words: frozenset[str]

    def with_chunk(self, **changes: Any) -> Held:
        return replace(self, item=replace(self.item, chunk=replace(self.item.chunk, **changes)))

    def with_item(self, **changes: Any) -> Held:
        return replace(self, item=replace(self.item, **changes))


@dataclass
class MemoryIndex:
    """``rows`` in order of writing; one id may be there twice, and then the last one is listed,
    as the embedded engine does it, unless ``lists_all``. ``before`` is called with the name and
    the argument of each write, and may raise. ``refused`` are ids that ``check`` refuses."""

    rows: list[Held] = field(default_factory=list)
    lists_all: bool = False
    before: Callable[[str, Any], None] = lambda _name, _what: None
    refused: set[str] = field(default_factory=set)

    def search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        rows = [
            row
            for row in self._listed()
            if row.item.kb_scope == request.kb_scope
            and request.category in (None, row.item.category)
        ]
        if request.mode == "dense":
            assert request.vector is not None
            scored = [(float(row.item.vector @ request.vector), row) for row in rows]
        else:
            words = frozenset(request.query.lower().split())
            scored = [(float(len(words & row.words)), row) for row in rows if words & row.words]
        best = sorted(scored, key=lambda pair: (-pair[0], pair[1].id))[: request.retrieve_k]
        return tuple(_hit(row, score, rank, request) for rank, (score, row) in enumerate(best, 1))

    def count(self, *, kb_scope: str | None = None, doc_id: str | None = None) -> int:
        return sum(
            kb_scope in (None, row.item.kb_scope) and doc_id in (None, row.item.chunk.doc_id)
            for row in self.rows
        )

    def iter_ids(self, *, doc_id: str | None = None) -> Iterator[str]:
        return (row.id for row in self.iter_rows(doc_id=doc_id))

    def iter_rows(self, *, doc_id: str | None = None) -> Iterator[StoredRow]:
        for row in self._listed():
            item = row.item
            if doc_id in (None, item.chunk.doc_id):
                yield StoredRow(
                    row.id,
                    item.chunk.doc_id,
                    item.kb_scope,
                    item.category,
                    item.chunk.content,
                    item.content_hash,
                )

    def check(self, chunks: Sequence[IndexedChunk]) -> None:
        for item in chunks:
            if item.chunk.doc_id in self.refused:
                raise InvalidInput(f"{item.chunk.doc_id} is too long.", field="content")

    def upsert_chunks(self, chunks: Sequence[IndexedChunk]) -> None:
        self.before("upsert", [item.chunk.doc_id for item in chunks])
        new = [
            Held(_key(item), item, frozenset(item.search_text.lower().split())) for item in chunks
        ]
        ids = {row.id for row in new}
        self.rows = [row for row in self.rows if row.id not in ids] + new

    def delete_by_doc_id(self, doc_id: str, *, from_index: int = 0) -> int:
        self.before("delete", doc_id)

        def goes(row: Held) -> bool:
            return row.item.chunk.doc_id == doc_id and _number(row.id) >= from_index

        before = len(self.rows)
        self.rows = [row for row in self.rows if not goes(row)]
        return before - len(self.rows)

    def change(self, row_id: str, change: Callable[[Held], Held]) -> None:
        """Replace the row of that id by what ``change`` makes of it."""
        assert any(row.id == row_id for row in self.rows)
        self.rows = [change(row) if row.id == row_id else row for row in self.rows]

    def _listed(self) -> list[Held]:
        return list(self.rows) if self.lists_all else list({r.id: r for r in self.rows}.values())


def _key(item: IndexedChunk) -> str:
    return f"{item.chunk.doc_id}#chunk-{item.chunk.chunk_index}"


def _number(row_id: str) -> float:
    try:
        return parse_evidence_key(row_id)[1]
    except InvalidInput:
        return np.inf


def _hit(row: Held, score: float, rank: int, request: SearchRequest) -> SearchHit:
    dense = request.mode == "dense"
    chunk = row.item.chunk
    return SearchHit(
        id=row.id,
        doc_id=chunk.doc_id,
        chunk_index=chunk.chunk_index,
        content=chunk.content,
        title=chunk.title,
        breadcrumb=chunk.breadcrumb,
        source=row.item.source,
        category=row.item.category,
        scores=Scores(dense=score, dense_rank=rank) if dense else Scores(sparse=score),
    )
