"""One generation of the index: a Milvus collection behind the search and write ports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from pymilvus import AnnSearchRequest, MilvusClient, RRFRanker, WeightedRanker

from knowport.adapters.milvus import filters
from knowport.adapters.milvus.engine import Engine, translated
from knowport.adapters.milvus.listing import PAGE_KEYS, stored_keys, stored_rows
from knowport.adapters.milvus.schema import (
    OUTPUT_FIELDS,
    check_rows,
    collection_schema,
    from_key,
    to_row,
)
from knowport.errors import ConfigurationError, EngineError
from knowport.model import IndexedChunk, Scores, SearchHit, SearchRequest, StoredRow, Vector

# One upsert of 5,000 rows of 1,024 numbers took Lite 2.5.1 two minutes, and a server takes
# messages of 64 MB at most.
MAX_BATCH_ROWS = 500
MAX_BATCH_BYTES = 8_000_000
# Lite 2.5.1 fails so when the last row has just gone, and once in thousands of searches while rows
# are replaced: for a moment it counts more rows with a word than rows.
_BM25_OF_A_MOMENT = "Invalid sparse row"
# Reads our own writes at once; unlike Strong it does not wait for the writes of others.
SEARCH_CONSISTENCY = "Session"
EXACT_CONSISTENCY = "Strong"


class MilvusIndex:
    """KnowledgeSearchPort and KnowledgeWritePort over one collection.

    ``dimension`` is the length of its dense vectors; without ``lexical`` it has no BM25 field.
    """

    def __init__(self, engine: Engine, collection: str, *, dimension: int, lexical: bool) -> None:
        self._engine = engine
        self._client: MilvusClient = engine.client
        self._timeout = engine.timeout
        self.collection = collection
        self._dimension = dimension
        self._lexical = lexical
        # BM25 over an empty collection fails an assertion inside Lite 2.5.1 (average length 0).
        self._known_to_hold_rows = False

    # -- life of the collection -------------------------------------------------------------

    def exists(self) -> bool:
        with translated(f"collection {self.collection}"):
            return bool(self._client.has_collection(self.collection, timeout=self._timeout))

    def create(self) -> None:
        """Create the collection with its indexes and load it. Raises EngineError."""
        params = self._client.prepare_index_params()
        params.add_index("dense_vector", index_type="FLAT", metric_type="COSINE")
        if self._lexical:
            params.add_index(
                "sparse_vector", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25"
            )
        with translated(f"creating collection {self.collection}"):
            self._client.create_collection(
                self.collection,
                schema=collection_schema(self._dimension, lexical=self._lexical),
                index_params=params,
                # Iterators ignore the level they are given and read at the collection's own.
                consistency_level=EXACT_CONSISTENCY,
                timeout=self._timeout,
            )

    def drop(self) -> None:
        with translated(f"dropping collection {self.collection}"):
            self._client.drop_collection(self.collection, timeout=self._timeout)

    # -- reading ----------------------------------------------------------------------------

    def search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        """See KnowledgeSearchPort."""
        if request.mode != "dense" and not self._lexical:
            raise ConfigurationError(
                f"Collection {self.collection} has no BM25 field.",
                remedy='Set retrieval.search.mode = "dense", or use Milvus 2.5 or later.',
            )
        try:
            return self._search(request)
        except EngineError as error:
            if _BM25_OF_A_MOMENT not in error.message:
                raise
        self._known_to_hold_rows = False
        return self._search(request)

    def _search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        if not self._known_to_hold_rows:
            if self.count() == 0:
                return ()
            self._known_to_hold_rows = True
        with translated(f"searching collection {self.collection}"):
            if request.mode == "dense":
                return self._search_dense(request)
            if request.mode == "sparse":
                return self._search_sparse(request)
            return self._search_hybrid(request)

    def _search_dense(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        rows = _rows(self._search_leg(request, request.vector, "dense_vector", OUTPUT_FIELDS))
        return tuple(
            _hit(row, Scores(dense=row.score, dense_rank=rank))
            for rank, row in enumerate(sorted(rows, key=_best_first), start=1)
        )

    def _search_sparse(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        known = request.vector is not None
        fields = [*OUTPUT_FIELDS, "dense_vector"] if known else OUTPUT_FIELDS
        found = self._search_leg(request, request.query, "sparse_vector", fields)
        rows = _rows(found, sign=self._engine.bm25_sign, query=request.vector)
        return tuple(
            _hit(row, Scores(dense=row.cosine, sparse=row.score, sparse_rank=rank))
            for rank, row in enumerate(sorted(rows, key=_best_first), start=1)
        )

    def _search_leg(
        self, request: SearchRequest, data: Any, field: str, output_fields: list[str]
    ) -> Any:
        return self._client.search(
            self.collection,
            data=[data],
            anns_field=field,
            filter=_scope_filter(request),
            limit=request.retrieve_k,
            output_fields=output_fields,
            consistency_level=SEARCH_CONSISTENCY,
            timeout=self._timeout,
        )[0]

    def _search_hybrid(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        # The filter goes on each leg: a filter given to hybrid_search itself is ignored.
        expr = _scope_filter(request)
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
            return self._client.hybrid_search(
                self.collection,
                legs,
                ranker,
                limit=limit,
                output_fields=[*OUTPUT_FIELDS, "dense_vector"],
                consistency_level=SEARCH_CONSISTENCY,
                timeout=self._timeout,
            )[0]

        # Engines break ties at the cut each in its own way. Two rows more than asked show whether
        # the tie ends there (RRF ties come in pairs); if not, the whole union of the legs does.
        wanted = request.retrieve_k
        found = fused(wanted + 2)
        if len(found) == wanted + 2 and found.distances[-1] == found.distances[wanted - 1]:
            found = fused(2 * wanted)
        rows = sorted(_rows(found, query=request.vector), key=_best_first)[:wanted]
        return tuple(_hit(row, Scores(fused=row.score, dense=row.cosine)) for row in rows)

    def count(self, *, kb_scope: str | None = None, doc_id: str | None = None) -> int:
        """See KnowledgeSearchPort."""
        with translated(f"counting in collection {self.collection}"):
            rows = self._client.query(
                self.collection,
                filter=filters.equals(kb_scope=kb_scope, doc_id=doc_id),
                output_fields=["count(*)"],
                consistency_level=EXACT_CONSISTENCY,
                timeout=self._timeout,
            )
        return int(rows[0]["count(*)"])

    def iter_ids(self, *, doc_id: str | None = None) -> Iterator[str]:
        """See KnowledgeWritePort."""
        return map(from_key, stored_keys(self._engine, self.collection, doc_id=doc_id))

    def iter_rows(self, *, doc_id: str | None = None) -> Iterator[StoredRow]:
        """See KnowledgeWritePort. Lite 2.5.1 hands out the last row of an id and counts all."""
        return stored_rows(self._engine, self.collection, doc_id=doc_id)

    # -- writing ----------------------------------------------------------------------------

    def check(self, chunks: Sequence[IndexedChunk]) -> None:
        """See KnowledgeWritePort."""
        check_rows([to_row(chunk) for chunk in chunks], self._dimension)

    def upsert_chunks(self, chunks: Sequence[IndexedChunk]) -> None:
        """See KnowledgeWritePort."""
        rows = [to_row(chunk) for chunk in chunks]
        check_rows(rows, self._dimension)
        for batch in _batches(rows):
            with translated(f"writing to collection {self.collection}"):
                self._client.upsert(self.collection, batch, timeout=self._timeout)

    def delete_by_doc_id(self, doc_id: str, *, from_index: int = 0) -> int:
        """See KnowledgeWritePort. Deletes by primary key, so no filter can reach another id."""
        keys = [
            key
            for key in stored_keys(self._engine, self.collection, doc_id=doc_id)
            if _is_from(key, from_index)
        ]
        for start in range(0, len(keys), PAGE_KEYS):
            with translated(f"deleting from collection {self.collection}"):
                self._client.delete(
                    self.collection, ids=keys[start : start + PAGE_KEYS], timeout=self._timeout
                )
        if keys:
            self._known_to_hold_rows = False
        return len(keys)

    # -- proof ------------------------------------------------------------------------------

    def prove_analyzer(self) -> None:
        """Write one row to a scratch collection and find it by its words; raises EngineError.

        Asked: a Chinese word inside a sentence, an English word in another case, and a code with
        hyphen and underscore. A server whose analyzer is missing or set otherwise fails here and
        not in front of a user.
        """
        if not self._lexical:
            return
        probe = MilvusIndex(self._engine, f"{self.collection}_probe", dimension=2, lexical=True)
        if probe.exists():
            probe.drop()
        probe.create()
        try:
            failed = probe._unfound_probe_words()
        finally:
            probe.drop()
        if failed:
            raise EngineError(
                f"The analyzer of this Milvus ({self._engine.version}) does not find {failed}.",
                remedy="Use Milvus 2.5 or later with the jieba tokenizer, or set "
                'retrieval.search.mode = "dense".',
            )

    def _unfound_probe_words(self) -> list[str]:
        text = "数据库主从切换 MySQL failover 之后检查 ORA-00257 与 innodb_lock_wait_timeout"
        words = ["主从", "FAILOVER", "ora-00257", "innodb_lock_wait_timeout"]
        row = {
            **dict.fromkeys(("doc_id", "content", "title", "breadcrumb", "category"), "probe"),
            **dict.fromkeys(("kb_scope", "source", "content_hash"), "probe"),
            "id": "probe",
            "search_text": text,
            "chunk_index": 0,
            "metadata": {},
            "dense_vector": [1.0, 0.0],
        }
        with translated("proving the analyzer"):
            self._client.upsert(self.collection, [row], timeout=self._timeout)
            found = self._client.search(
                self.collection,
                data=words,
                anns_field="sparse_vector",
                limit=1,
                consistency_level=EXACT_CONSISTENCY,
                timeout=self._timeout,
            )
        return [word for word, rows in zip(words, found, strict=True) if not rows]


def _is_from(key: str, index: int) -> bool:
    """Whether a chunk has at least that number; a row of a document that is no chunk goes too."""
    number = key.rpartition("#chunk-")[2]
    return not number.isdecimal() or int(number) >= index


def _scope_filter(request: SearchRequest) -> str:
    return filters.equals(kb_scope=request.kb_scope, category=request.category)


class _Row(NamedTuple):
    """One row of a search: more ``score`` is better, ``cosine`` is None where it is not known."""

    id: str
    score: float
    cosine: float | None
    entity: dict[str, Any]


def _rows(found: Any, *, sign: float = 1.0, query: Vector | None = None) -> list[_Row]:
    """What pymilvus found for one query, in its order; cosines only if asked for by ``query``."""
    cosines = [None] * len(found) if query is None else _cosines(query, found)
    return [
        _Row(from_key(key), sign * distance, cosine, row["entity"])
        for key, distance, cosine, row in zip(
            found.ids, found.distances, cosines, found, strict=True
        )
    ]


def _cosines(query: Vector, found: Any) -> list[float]:
    """Cosine of the query with the vector of each row, which must not have been read yet.

    A row that is read gets its vector as a Python list of floats, which takes longer than all
    else that is done with it; so the vectors are taken out of the answer in one piece before.
    """
    if not found:
        return []
    fields = [field.field_name for field in found.lazy_field_data]
    vectors = found.lazy_field_data.pop(fields.index("dense_vector")).vectors
    matrix = np.array(vectors.float_vector.data, dtype=np.float32).reshape(-1, vectors.dim)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(query)
    return [float(value) for value in (matrix @ query) / lengths]


def _best_first(row: _Row) -> tuple[float, str]:
    return -row.score, row.id


def _hit(row: _Row, scores: Scores) -> SearchHit:
    entity = row.entity
    return SearchHit(
        id=row.id,
        doc_id=entity["doc_id"],
        chunk_index=int(entity["chunk_index"]),
        content=entity["content"],
        title=entity["title"],
        breadcrumb=entity["breadcrumb"],
        source=entity["source"],
        category=entity["category"],
        scores=scores,
        metadata=entity["metadata"],
    )


def _batches(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows in order, in batches bounded by rows and by bytes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        # Three bytes a character is the upper bound for Chinese; four bytes a float32.
        row_size = 3 * (len(row["content"]) + len(row["search_text"])) + 4 * len(
            row["dense_vector"]
        )
        if batch and (len(batch) == MAX_BATCH_ROWS or size + row_size > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row_size
    if batch:
        yield batch
