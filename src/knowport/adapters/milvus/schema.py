"""The collection: fields, byte limits, analyzer and indexes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
from pymilvus import CollectionSchema, DataType, FieldSchema, Function, FunctionType

from knowport.adapters.milvus import filters
from knowport.errors import InvalidInput
from knowport.model import IndexedChunk

SCHEMA_VERSION = 1

ANALYZER: dict[str, Any] = {"tokenizer": "jieba", "filter": ["cnalphanumonly", "lowercase"]}
"""Chinese words and English without case. Lite 3.2.2 ignores ``cnalphanumonly``; a server and
Lite 2.5.1 drop punctuation with it. An unknown filter would hang Lite 2.5.1 on insert, so this
value is a constant and not a setting."""

# max_length is counted in UTF-8 bytes by a server, in characters by Lite 3 and not at all by
# Lite 2.5.1, so the limits are enforced by `check` before any write.
MAX_BYTES = {
    "id": 1_280,  # a doc_id of which `to_key` triples every character, and the chunk's number
    "doc_id": 400,
    "content": 60_000,
    "search_text": 65_535,
    "title": 1_024,
    "breadcrumb": 2_048,
    "category": 256,
    "kb_scope": 256,
    "source": 1_024,
    "content_hash": 64,
}
MAX_METADATA_BYTES = 65_000

# pymilvus puts primary keys into the filters of its iterators and of delete(ids=...), and Lite
# 2.5.1 into SQL, all without escaping. So what could end a string is never in a primary key.
_KEY_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in "%'\"\\"})

INDEXES: dict[str, dict[str, Any]] = {
    "dense_vector": {"index_type": "FLAT", "metric_type": "COSINE"},
    "sparse_vector": {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25"},
}
"""The index of each vector field; a generation without BM25 has no sparse one."""

OUTPUT_FIELDS = [
    "doc_id",
    "chunk_index",
    "content",
    "title",
    "breadcrumb",
    "source",
    "category",
    "metadata",
]


def collection_schema(dimension: int, *, lexical: bool) -> CollectionSchema:
    """Schema of one generation; without ``lexical`` it has no sparse field (Milvus before 2.5)."""

    def varchar(name: str, **more: Any) -> FieldSchema:
        return FieldSchema(name, DataType.VARCHAR, max_length=MAX_BYTES[name], **more)

    analyzed = {"enable_analyzer": True, "analyzer_params": ANALYZER} if lexical else {}
    fields = [
        varchar("id", is_primary=True),
        varchar("doc_id"),
        FieldSchema("chunk_index", DataType.INT64),
        varchar("content"),
        varchar("search_text", **analyzed),
        varchar("title"),
        varchar("breadcrumb"),
        varchar("category"),
        varchar("kb_scope"),
        varchar("source"),
        varchar("content_hash"),
        FieldSchema("metadata", DataType.JSON),
        FieldSchema("dense_vector", DataType.FLOAT_VECTOR, dim=dimension),
    ]
    functions = []
    if lexical:
        fields.append(FieldSchema("sparse_vector", DataType.SPARSE_FLOAT_VECTOR))
        functions.append(
            Function(
                "bm25",
                FunctionType.BM25,
                input_field_names=["search_text"],
                output_field_names=["sparse_vector"],
            )
        )
    return CollectionSchema(
        fields,
        functions=functions or None,
        description=f"Knowport chunks, schema {SCHEMA_VERSION}",
        enable_dynamic_field=False,
    )


def to_key(chunk_id: str) -> str:
    """The primary key of a chunk: its id with ``%``, quotes and backslash percent-encoded."""
    return chunk_id.translate(_KEY_ESCAPES)


def from_key(key: str) -> str:
    """The id of the chunk that has a primary key."""
    return unquote(key)


def to_row(item: IndexedChunk) -> dict[str, Any]:
    """The row of one chunk, as the engine takes it."""
    chunk = item.chunk
    return {
        "id": to_key(f"{chunk.doc_id}#chunk-{chunk.chunk_index}"),
        "doc_id": chunk.doc_id,
        "chunk_index": chunk.chunk_index,
        "content": chunk.content,
        "search_text": item.search_text,
        "title": chunk.title,
        "breadcrumb": chunk.breadcrumb,
        "category": item.category,
        "kb_scope": item.kb_scope,
        "source": item.source,
        "content_hash": item.content_hash,
        "metadata": {**item.metadata, "start": chunk.start, "end": chunk.end},
        "dense_vector": item.vector,
    }


def check_rows(rows: Sequence[dict[str, Any]], dimension: int) -> None:
    """Refuse what an engine would refuse, cut, store wrongly or die of; raises InvalidInput."""
    seen: set[str] = set()
    for row in rows:
        key = from_key(row["id"])
        # Given twice in one upsert, an id becomes two rows on Lite 2.5.1 and an error on a server.
        if key in seen:
            raise InvalidInput(f"Chunk {key!r} is given twice in one write.", field="id")
        seen.add(key)
        for name, limit in MAX_BYTES.items():
            _check_text(key, name, row[name], limit)
        for name in ("doc_id", "category", "kb_scope"):
            if not filters.is_literal(row[name]):  # it could be stored and never asked for
                raise InvalidInput(
                    f"Field {name} of chunk {key!r} contains a control character.", field=name
                )
        _check_metadata(key, row["metadata"])
        _check_vector(key, row["dense_vector"], dimension)


def _check_text(key: str, name: str, value: object, limit: int) -> None:
    # A None kills the Lite 2.5.1 process, and its client then retries for minutes.
    if not isinstance(value, str):
        raise InvalidInput(f"Field {name} of chunk {key!r} is not text: {value!r}.", field=name)
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"Field {name} of chunk {key!r} holds a lone surrogate at {error.start}.", field=name
        ) from error
    if size > limit:
        raise InvalidInput(
            f"Field {name} of chunk {key!r} has {size} UTF-8 bytes; the limit is {limit}.",
            field=name,
            remedy="Use a smaller chunking.size." if name in {"content", "search_text"} else "",
        )


def _check_metadata(key: str, metadata: dict[str, Any]) -> None:
    try:
        size = len(json.dumps(metadata, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Metadata of chunk {key!r} cannot be written as JSON: {error}.", field="metadata"
        ) from error
    if size > MAX_METADATA_BYTES:
        raise InvalidInput(
            f"Metadata of chunk {key!r} has {size} bytes; the limit is {MAX_METADATA_BYTES}.",
            field="metadata",
        )


def _check_vector(key: str, vector: Any, dimension: int) -> None:
    array = np.asarray(vector)
    if array.shape != (dimension,):
        raise InvalidInput(
            f"Vector of chunk {key!r} has shape {array.shape}, expected ({dimension},).",
            field="dense_vector",
        )
    # Lite stores a NaN and then leaves the row out of results, or returns it with NaN scores.
    if not np.isfinite(array).all() or not array.any():
        raise InvalidInput(
            f"Vector of chunk {key!r} is all zero or holds NaN or infinity.", field="dense_vector"
        )
