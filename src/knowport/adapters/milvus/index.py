"""One generation of the index: a Milvus collection behind the search and write ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pymilvus import MilvusClient
from pymilvus.client.types import LoadState

from knowport.adapters.milvus import filters, searching
from knowport.adapters.milvus.engine import Engine, translated
from knowport.adapters.milvus.listing import PAGE_KEYS, stored_keys, stored_rows
from knowport.adapters.milvus.room import is_embedded, room
from knowport.adapters.milvus.schema import INDEXES, check_rows, collection_schema, from_key, to_row
from knowport.errors import ConfigurationError, EngineError
from knowport.model import IndexedChunk, SearchHit, SearchRequest, StoredRow

# One upsert of 5,000 rows of 1,024 numbers took Lite 2.5.1 two minutes, and a server takes
# messages of 64 MB at most.
MAX_BATCH_ROWS = 500
MAX_BATCH_BYTES = 8_000_000
# Lite 2.5.1 fails so when the last row has just gone, and once in thousands of searches while rows
# are replaced: for a moment it counts more rows with a word than rows.
_BM25_OF_A_MOMENT = "Invalid sparse row"
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

    def is_whole(self) -> bool:
        """Whether the collection is there with all its indexes; without them searches fail."""
        return self.exists() and not self._unindexed()

    def create(self) -> None:
        """Create the collection and its indexes, as far as they are missing, and load it.

        Each is a call of its own, so an interruption may leave a part; rows that are there stay.
        Raises EngineError, EngineFull.
        """
        if self.is_whole():
            self._load()
            return
        with room(self._engine.uri), translated(f"creating collection {self.collection}"):
            if not self.exists():
                self._client.create_collection(
                    self.collection,
                    schema=collection_schema(self._dimension, lexical=self._lexical),
                    # Iterators ignore the level they are given and read at the collection's own.
                    consistency_level=EXACT_CONSISTENCY,
                    timeout=self._timeout,
                )
            for field in self._unindexed():
                params = self._client.prepare_index_params()
                params.add_index(field, **INDEXES[field])
                self._client.create_index(self.collection, params, timeout=self._timeout)
            self._client.load_collection(self.collection, timeout=self._timeout)

    def _unindexed(self) -> list[str]:
        """Fields of the collection, which is there, that lack their index."""
        fields = [field for field in INDEXES if self._lexical or field != "sparse_vector"]
        with translated(f"indexes of collection {self.collection}"):
            return [
                field
                for field in fields
                if not self._client.list_indexes(self.collection, field, timeout=self._timeout)
            ]

    def _load(self) -> None:
        """Load the collection where it is not; an embedded engine does so at the first search."""
        if is_embedded(self._engine.uri):
            return
        with translated(f"loading collection {self.collection}"):
            state = self._client.get_load_state(self.collection, timeout=self._timeout)["state"]
            if state == LoadState.NotLoad:
                self._client.load_collection(self.collection, timeout=self._timeout)

    def drop(self) -> None:
        with room(self._engine.uri), translated(f"dropping collection {self.collection}"):
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
        return searching.search(self._engine, self.collection, request)

    def begin_search(self, request: SearchRequest) -> Callable[[], tuple[SearchHit, ...]]:
        """See KnowledgeSearchPort."""
        plainly = partial(self.search, request)
        one_leg = request.mode == "dense" or (request.mode == "sparse" and self._lexical)
        if not (one_leg and self._known_to_hold_rows):
            return plainly
        return searching.begin(self._engine, self.collection, request, plainly)

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
        what = f"writing to collection {self.collection}"
        for batch in _batches(rows):
            with room(self._engine.uri, sum(map(_size, batch))), translated(what):
                self._client.upsert(self.collection, batch, timeout=self._timeout)

    def delete_by_doc_id(self, doc_id: str, *, from_index: int = 0) -> int:
        """See KnowledgeWritePort. Deletes by primary key, so no filter can reach another id."""
        keys = [
            key
            for key in stored_keys(self._engine, self.collection, doc_id=doc_id)
            if _is_from(key, from_index)
        ]
        what = f"deleting from collection {self.collection}"
        for start in range(0, len(keys), PAGE_KEYS):
            with room(self._engine.uri), translated(what):
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


def _size(row: dict[str, Any]) -> int:
    """Bytes of a row, at most: three a character of Chinese, four a number."""
    return 3 * (len(row["content"]) + len(row["search_text"])) + 4 * len(row["dense_vector"])


def _batches(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows in order, in batches bounded by rows and by bytes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        row_size = _size(row)
        if batch and (len(batch) == MAX_BATCH_ROWS or size + row_size > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row_size
    if batch:
        yield batch
