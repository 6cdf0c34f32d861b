"""An index, an embedder and a ledger for tests of the pipelines: small, exact, and they remember.

A row of the index names its cosine and its BM25 score outright, so that a test decides the ranks
of both legs by plain numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from knowport.core.fusion import rrf
from knowport.core.relevance import Thresholds
from knowport.errors import EngineError, KnowportError
from knowport.model import (
    DocumentInfo,
    EmbedderIdentity,
    Matrix,
    Scores,
    SearchHit,
    SearchRequest,
    Vector,
)

SCALE = Thresholds(low=0.5, medium=0.7, high=0.9)
"""Levels by the cosine alone."""


@dataclass(frozen=True)
class Row:
    """A chunk of the fake index; BM25 0 is not found by words.

    ``row_id`` is for a row that is not written by Knowport, whose id is not its evidence key.
    """

    doc_id: str
    number: int = 0
    content: str = "text"
    cosine: float = 0.8
    bm25: float = 0.0
    category: str = ""
    kb_scope: str = "default"
    title: str = ""
    breadcrumb: str = ""
    row_id: str = ""

    @property
    def id(self) -> str:
        return self.row_id or f"{self.doc_id}#chunk-{self.number}"


@dataclass
class FakeIndex:
    """A search port over rows; ``failing`` has the error that a search mode raises.

    ``failing`` may also name a mode and a category, for one of two attempts to fail.
    """

    rows: Sequence[Row] = ()
    failing: dict[Any, Exception] = field(default_factory=dict)
    asked: list[SearchRequest] = field(default_factory=list)

    def search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        self.asked.append(request)
        for name in (request.mode, (request.mode, request.category)):
            if name in self.failing:
                raise self.failing[name]
        assert (request.vector is None) <= (request.mode == "sparse")
        rows = [
            row
            for row in self.rows
            if row.kb_scope == request.kb_scope and request.category in (None, row.category)
        ]
        width = request.retrieve_k
        dense = sorted(rows, key=lambda row: (-row.cosine, row.id))[:width]
        matched = (row for row in rows if row.bm25 > 0)
        sparse = sorted(matched, key=lambda row: (-row.bm25, row.id))[:width]
        if request.mode == "dense":
            legs = ((row, Scores(dense=row.cosine, dense_rank=n)) for n, row in _ranked(dense))
        elif request.mode == "sparse":
            known = request.vector is not None
            legs = (
                (row, Scores(dense=row.cosine if known else None, sparse=row.bm25, sparse_rank=n))
                for n, row in _ranked(sparse)
            )
        else:
            by_id = {row.id: row for row in rows}
            fused = rrf([[row.id for row in leg] for leg in (dense, sparse)], k=request.rrf_k)
            legs = (
                (by_id[name], Scores(fused=score, dense=by_id[name].cosine))
                for name, score in fused[:width]
            )
        return tuple(_hit(row, scores) for row, scores in legs)

    def begin_search(self, request: SearchRequest) -> Callable[[], tuple[SearchHit, ...]]:
        return partial(self.search, request)

    def count(self, *, kb_scope: str | None = None, doc_id: str | None = None) -> int:
        return sum(
            kb_scope in (None, row.kb_scope) and doc_id in (None, row.doc_id) for row in self.rows
        )

    @property
    def modes(self) -> list[tuple[str, str | None]]:
        """Mode and category of each search, in order."""
        return [(request.mode, request.category) for request in self.asked]


def _ranked(rows: Sequence[Row]) -> enumerate[Row]:
    return enumerate(rows, start=1)


def _hit(row: Row, scores: Scores) -> SearchHit:
    return SearchHit(
        id=row.id,
        doc_id=row.doc_id,
        chunk_index=row.number,
        content=row.content,
        title=row.title,
        breadcrumb=row.breadcrumb,
        source="fake",
        category=row.category,
        scores=scores,
    )


class FakeEmbedder:
    """Any query has one vector; remembers the queries, or raises ``error``."""

    identity = EmbedderIdentity("fake", "fake", 2)
    batch_size = 8

    def __init__(self, error: KnowportError | None = None) -> None:
        self.error = error
        self.queries: list[str] = []
        self._guard = threading.Lock()

    def embed_query(self, text: str) -> Vector:
        with self._guard:
            self.queries.append(text)
        if self.error is not None:
            raise self.error
        return np.array([1.0, 0.0], dtype=np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return np.tile(np.array([1.0, 0.0], dtype=np.float32), (len(texts), 1))


class FakeLedger:
    """Knows the documents of the rows."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._infos: dict[str, DocumentInfo] = {}
        for row in rows:
            known = self._infos.get(row.doc_id)
            chunks = max(known.chunk_count if known else 0, row.number + 1)
            self._infos[row.doc_id] = DocumentInfo(
                doc_id=row.doc_id,
                source="fake",
                title=row.title,
                category=row.category,
                kb_scope=row.kb_scope,
                content_hash="",
                chunk_count=chunks,
                state="indexed",
                updated_at="",
            )

    def document(self, doc_id: str) -> DocumentInfo | None:
        return self._infos.get(doc_id)

    def categories(self, kb_scope: str) -> tuple[str, ...]:
        infos = self._infos.values()
        return tuple(sorted({i.category for i in infos if i.kb_scope == kb_scope and i.category}))


def engine_error(what: str) -> EngineError:
    return EngineError(f"Milvus failed on {what}.")


def tampered(hit: SearchHit, **scores: Any) -> SearchHit:
    """The hit with other scores."""
    return replace(hit, scores=replace(hit.scores, **scores))
