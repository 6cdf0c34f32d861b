"""Rows: their keys, byte limits and batches; what an engine does with them is a contract test."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pymilvus import DataType

from knowport.adapters.milvus import index, schema
from knowport.errors import InvalidInput
from knowport.model import Chunk, IndexedChunk


def row(**fields: Any) -> dict[str, Any]:
    item = IndexedChunk(
        chunk=Chunk("kb/a.md", 3, "content", "title", "top > sub", 10, 17),
        source="a.md",
        category="network",
        kb_scope="default",
        content_hash="0" * 64,
        search_text="title content",
        vector=np.array([1.0, 0.0], dtype=np.float32),
        metadata={"owner": "ops"},
    )
    return {**schema.to_row(item), **fields}


def test_row() -> None:
    made = row()

    assert made.pop("dense_vector").tolist() == [1.0, 0.0]
    assert made == {
        "id": "kb/a.md#chunk-3",
        "doc_id": "kb/a.md",
        "chunk_index": 3,
        "content": "content",
        "search_text": "title content",
        "title": "title",
        "breadcrumb": "top > sub",
        "category": "network",
        "kb_scope": "default",
        "source": "a.md",
        "content_hash": "0" * 64,
        "metadata": {"owner": "ops", "start": 10, "end": 17},
    }


@pytest.mark.parametrize(
    ("chunk_id", "key"),
    [
        ("kb/数据库.md#chunk-0", "kb/数据库.md#chunk-0"),
        ("it's#chunk-0", "it%27s#chunk-0"),
        ('"\\#chunk-0', "%22%5C#chunk-0"),
        ("100%27#chunk-0", "100%2527#chunk-0"),
        ("%E5%BA%93+ #chunk-0", "%25E5%25BA%2593+ #chunk-0"),
    ],
)
def test_a_primary_key_holds_no_quote_and_reads_back(chunk_id: str, key: str) -> None:
    assert schema.to_key(chunk_id) == key
    assert schema.from_key(key) == chunk_id


def test_the_key_of_the_longest_document_id_fits() -> None:
    chunk_id = "'" * schema.MAX_BYTES["doc_id"] + "#chunk-9999999999"

    assert len(schema.to_key(chunk_id).encode()) <= schema.MAX_BYTES["id"]


@pytest.mark.parametrize("name", schema.MAX_BYTES)
def test_limits_are_in_utf8_bytes(name: str) -> None:
    limit = schema.MAX_BYTES[name]
    longest = "库" * (limit // 3) + "x" * (limit % 3)
    schema.check_rows([row(**{name: longest})], 2)

    with pytest.raises(InvalidInput, match=f"{limit + 1} UTF-8 bytes; the limit is {limit}") as e:
        schema.check_rows([row(**{name: longest + "x"})], 2)
    assert e.value.field == name


def test_an_error_names_the_chunk_by_its_id() -> None:
    with pytest.raises(InvalidInput, match='"it\'s#chunk-0" is given twice'):
        schema.check_rows([row(id=schema.to_key("it's#chunk-0"))] * 2, 2)


def test_lexical_collection_has_a_bm25_function() -> None:
    made = schema.collection_schema(384, lexical=True)

    fields = {field.name: field for field in made.fields}
    assert fields["sparse_vector"].dtype == DataType.SPARSE_FLOAT_VECTOR
    assert json.loads(fields["search_text"].params["analyzer_params"]) == schema.ANALYZER
    assert fields["dense_vector"].params["dim"] == 384
    (bm25,) = made.functions
    assert (bm25.input_field_names, bm25.output_field_names) == (["search_text"], ["sparse_vector"])


def test_dense_collection_has_none() -> None:
    made = schema.collection_schema(384, lexical=False)

    assert "sparse_vector" not in {field.name for field in made.fields}
    assert not made.functions


def test_every_text_field_has_its_byte_limit() -> None:
    made = schema.collection_schema(2, lexical=True)

    limits = {f.name: f.params["max_length"] for f in made.fields if f.dtype == DataType.VARCHAR}
    assert limits == schema.MAX_BYTES


def sizes(rows: list[dict[str, Any]]) -> list[int]:
    batches = list(index._batches(rows))
    assert [one for batch in batches for one in batch] == rows
    return [len(batch) for batch in batches]


def plain(content: str = "", dimension: int = 2) -> dict[str, Any]:
    return {"content": content, "search_text": content, "dense_vector": [0.0] * dimension}


def test_batches_are_bounded_by_rows() -> None:
    assert sizes([]) == []
    assert sizes([plain()] * index.MAX_BATCH_ROWS) == [index.MAX_BATCH_ROWS]
    assert sizes([plain()] * 700) == [500, 200]


def test_batches_are_bounded_by_bytes() -> None:
    third = plain("库" * (index.MAX_BATCH_BYTES // 18 - 10))  # of content and again of search text
    assert sizes([third] * 7) == [3, 3, 1]
    assert sizes([plain(dimension=index.MAX_BATCH_BYTES // 8)] * 3) == [2, 1]


def test_a_row_over_the_bound_is_a_batch_of_its_own() -> None:
    huge = plain("x" * index.MAX_BATCH_BYTES)
    assert sizes([plain(), huge, plain()]) == [1, 1, 1]
