"""Searches of one collection, and the hits they bring."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
import numpy as np
from pymilvus import AnnSearchRequest, RRFRanker, WeightedRanker
from pymilvus.exceptions import MilvusException

from knowport.adapters.milvus import filters
from knowport.adapters.milvus.engine import Engine, translated
from knowport.adapters.milvus.schema import OUTPUT_FIELDS, from_key
from knowport.model import Metadata, Scores, SearchHit, SearchRequest, Vector

# Reads our own writes at once; unlike Strong it does not wait for the writes of others.
CONSISTENCY = "Session"
_WITH_VECTOR = [*OUTPUT_FIELDS, "dense_vector"]

Hits = tuple[SearchHit, ...]


def search(engine: Engine, collection: str, request: SearchRequest) -> Hits:
    """The hits of a search. Raises EngineError."""
    with translated(f"searching collection {collection}"):
        if request.mode == "hybrid":
            return _fused(engine, collection, request)
        return _hits(_ask(engine, collection, request), engine, request)


def begin(
    engine: Engine, collection: str, request: SearchRequest, otherwise: Callable[[], Hits]
) -> Callable[[], Hits]:
    """Start a search of one leg; what is returned waits for its hits.

    pymilvus does not try a call again that it does not wait for, nor tells how it failed. So where
    one fails ``otherwise`` is asked in its place.
    """
    try:
        pending = _ask(engine, collection, request, _async=True)
    except (MilvusException, grpc.RpcError):
        return otherwise

    def hits() -> Hits:
        try:
            found = pending.result()
        except (MilvusException, grpc.RpcError, grpc.FutureCancelledError):
            return otherwise()
        return _hits(found, engine, request)

    return hits


def _ask(engine: Engine, collection: str, request: SearchRequest, **how: Any) -> Any:
    """What one leg finds, or with ``_async`` the future of it."""
    dense = request.mode == "dense"
    with_vector = not dense and request.vector is not None
    return engine.client.search(
        collection,
        data=[request.vector if dense else request.query],
        anns_field="dense_vector" if dense else "sparse_vector",
        filter=_scope(request),
        limit=request.retrieve_k,
        output_fields=_WITH_VECTOR if with_vector else OUTPUT_FIELDS,
        consistency_level=CONSISTENCY,
        timeout=engine.timeout,
        **how,
    )


def _hits(found: Any, engine: Engine, request: SearchRequest) -> Hits:
    """Hits of one leg with its scores and ranks, best first, ties by id."""
    if request.mode == "dense":
        rows = sorted(_rows(found[0]), key=_best_first)
        return tuple(
            _hit(row, Scores(dense=row.score, dense_rank=rank))
            for rank, row in enumerate(rows, start=1)
        )
    rows = _rows(found[0], sign=engine.bm25_sign, query=request.vector)
    return tuple(
        _hit(row, Scores(dense=row.cosine, sparse=row.score, sparse_rank=rank))
        for rank, row in enumerate(sorted(rows, key=_best_first), start=1)
    )


def _fused(engine: Engine, collection: str, request: SearchRequest) -> Hits:
    """Hits of both legs, fused by the engine."""
    # The filter goes on each leg: a filter given to hybrid_search itself is ignored.
    expr = _scope(request)
    legs = [
        AnnSearchRequest([request.vector], "dense_vector", {}, request.retrieve_k, expr=expr),
        AnnSearchRequest([request.query], "sparse_vector", {}, request.retrieve_k, expr=expr),
    ]
    ranker = (
        RRFRanker(request.rrf_k)
        if request.ranker == "rrf"
        else WeightedRanker(request.weight_dense, request.weight_sparse)
    )

    def fused(limit: int) -> Any:
        return engine.client.hybrid_search(
            collection,
            legs,
            ranker,
            limit=limit,
            output_fields=_WITH_VECTOR,
            consistency_level=CONSISTENCY,
            timeout=engine.timeout,
        )[0]

    # Engines break ties at the cut each in its own way. Two rows more than asked show whether
    # the tie ends there (RRF ties come in pairs); if not, the whole union of the legs does.
    wanted = request.retrieve_k
    found = fused(wanted + 2)
    if len(found) == wanted + 2 and found.distances[-1] == found.distances[wanted - 1]:
        found = fused(2 * wanted)
    rows = sorted(_rows(found, query=request.vector), key=_best_first)[:wanted]
    return tuple(_hit(row, Scores(fused=row.score, dense=row.cosine)) for row in rows)


def _scope(request: SearchRequest) -> str:
    return filters.equals(kb_scope=request.kb_scope, category=request.category)


class _Row(NamedTuple):
    """One row of a search: more ``score`` is better, ``cosine`` is None where it is not known."""

    id: str
    score: float
    cosine: float | None
    entity: dict[str, Any]
    metadata: Metadata


def _rows(found: Any, *, sign: float = 1.0, query: Vector | None = None) -> list[_Row]:
    """What pymilvus found for one query, in its order; cosines only if asked for by ``query``.

    pymilvus decodes vectors and JSON row by row when a row is first read. As lists of floats the
    vectors alone take longer than all else that is done with a row, so both fields are taken out
    before, each in one piece.
    """
    if not found:
        return []
    documents = _taken(found, "metadata").scalars.json_data.data
    metadata = json.loads(b"[%s]" % b",".join(documents))
    cosines = [None] * len(found) if query is None else _cosines(query, found)
    return [
        _Row(from_key(key), sign * distance, cosine, row["entity"], values)
        for key, distance, cosine, row, values in zip(
            found.ids, found.distances, cosines, found, metadata, strict=True
        )
    ]


def _taken(found: Any, name: str) -> Any:
    fields = [field.field_name for field in found.lazy_field_data]
    return found.lazy_field_data.pop(fields.index(name))


def _cosines(query: Vector, found: Any) -> list[float]:
    vectors = _taken(found, "dense_vector").vectors
    matrix = np.array(vectors.float_vector.data, dtype=np.float32).reshape(-1, vectors.dim)
    squares = np.einsum("ij,ij->i", matrix, matrix) * (query @ query)
    cosines: list[float] = ((matrix @ query) / np.sqrt(squares)).tolist()
    return cosines


def _best_first(row: _Row) -> tuple[float, str]:
    return -row.score, row.id


def _hit(row: _Row, scores: Scores) -> SearchHit:
    entity = row.entity
    return SearchHit(  # by position: by name it takes half as long again, for 40 hits a lookup
        row.id,
        entity["doc_id"],
        int(entity["chunk_index"]),
        entity["content"],
        entity["title"],
        entity["breadcrumb"],
        entity["source"],
        entity["category"],
        scores,
        row.metadata,
    )
