"""Everything that a collection holds, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from knowport.adapters.milvus import filters
from knowport.adapters.milvus.engine import Engine, translated
from knowport.adapters.milvus.schema import from_key
from knowport.model import StoredRow

# A query without an iterator stops at 16,384 rows, without an error on Lite 2.5.1.
PAGE_KEYS = 1_000
# A content has 60,000 bytes at most, so that a page has 15 MB.
PAGE_ROWS = 250
_ROW_FIELDS = ("id", "doc_id", "kb_scope", "category", "content", "content_hash")


def stored_keys(engine: Engine, collection: str, *, doc_id: str | None) -> Iterator[str]:
    """Primary keys of a document's rows, or of all."""
    for row in _rows(engine, collection, doc_id, ("id",), PAGE_KEYS):
        yield str(row["id"])


def stored_rows(engine: Engine, collection: str, *, doc_id: str | None) -> Iterator[StoredRow]:
    """Rows of a document, or all, a page at a time in memory."""
    for row in _rows(engine, collection, doc_id, _ROW_FIELDS, PAGE_ROWS):
        yield StoredRow(**{name: row[name] for name in _ROW_FIELDS} | {"id": from_key(row["id"])})


def _rows(
    engine: Engine, collection: str, doc_id: str | None, fields: Sequence[str], page: int
) -> Iterator[Any]:
    with translated(f"listing collection {collection}"):
        # Bounded in time; the first request of an iterator has no deadline at all.
        engine.client.has_collection(collection, timeout=engine.timeout)
        pages = engine.client.query_iterator(
            collection,
            batch_size=page,
            filter=filters.equals(doc_id=doc_id),
            output_fields=list(fields),
            consistency_level="Strong",
            timeout=engine.timeout,
        )
        try:
            while rows := pages.next():
                yield from rows
        finally:
            pages.close()
