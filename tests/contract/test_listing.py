"""What an audit reads: every row as it is stored, also what no Knowport has written."""

from __future__ import annotations

from typing import Any

from knowport.adapters.milvus import MilvusIndex
from knowport.model import StoredRow

from .samples import axis, chunk


def raw(index: MilvusIndex, row_id: str, **fields: Any) -> dict[str, Any]:
    """A row as another program could write it."""
    texts = ("doc_id", "content", "title", "breadcrumb", "category", "kb_scope", "source")
    return {
        **dict.fromkeys((*texts, "search_text", "content_hash"), "text"),
        "id": row_id,
        "chunk_index": 0,
        "metadata": {},
        "dense_vector": axis(0),
        **fields,
    }


def test_rows_are_listed_as_they_are_stored(index: MilvusIndex) -> None:
    index.upsert_chunks(
        [
            chunk("网络/a.md", 0, "第一", category="网络", content_hash="a" * 64),
            chunk('it\'s "q".md', 3, "x\ny", kb_scope="team-b", content_hash="b" * 64),
        ]
    )

    rows = {row.id: row for row in index.iter_rows()}

    assert rows == {
        "网络/a.md#chunk-0": StoredRow(
            "网络/a.md#chunk-0", "网络/a.md", "default", "网络", "第一", "a" * 64
        ),
        'it\'s "q".md#chunk-3': StoredRow(
            'it\'s "q".md#chunk-3', 'it\'s "q".md', "team-b", "", "x\ny", "b" * 64
        ),
    }
    assert list(index.iter_rows(doc_id="网络/a.md")) == [rows["网络/a.md#chunk-0"]]
    assert list(index.iter_rows(doc_id="网络")) == []


def test_rows_of_many_pages_are_listed_once(index: MilvusIndex) -> None:
    index.upsert_chunks([chunk("doc", number, f"text {number}") for number in range(601)])

    contents = [row.content for row in index.iter_rows()]

    assert sorted(contents) == sorted(f"text {number}" for number in range(601))


def test_what_is_stored_twice_is_counted_twice(index: MilvusIndex) -> None:
    index.upsert_chunks([chunk("doc", 0, "first"), chunk("doc", 1, "other")])
    index._client.insert(index.collection, [raw(index, "doc#chunk-0", doc_id="doc", content="new")])

    listed = [row for row in index.iter_rows() if row.id == "doc#chunk-0"]
    stored = index.count(doc_id="doc")

    # An engine that replaces on insert has no duplicates; the others tell by list or by count.
    assert stored in (2, 3)
    assert 1 <= len(listed) <= stored - 1
    assert index.delete_by_doc_id("doc") >= 2
    assert index.count() == 0
    assert list(index.iter_rows()) == []


def test_rows_that_are_no_chunks_go_with_their_document(index: MilvusIndex) -> None:
    index.upsert_chunks([chunk("doc", 0), chunk("doc", 1), chunk("kept", 0)])
    index._client.upsert(
        index.collection,
        [raw(index, "17", doc_id="doc"), raw(index, "gone#chunk-x", doc_id="gone")],
    )

    assert index.delete_by_doc_id("doc", from_index=1) == 2
    assert sorted(index.iter_ids()) == ["doc#chunk-0", "gone#chunk-x", "kept#chunk-0"]
    assert index.delete_by_doc_id("gone") == 1
    assert sorted(index.iter_ids()) == ["doc#chunk-0", "kept#chunk-0"]
