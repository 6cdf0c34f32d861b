"""An index in memory and the ports of an ingest, for tests of the pipelines without an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knowport.adapters.ledger import SqlLedger
from knowport.adapters.loading import (
    LOADER_VERSION,
    FileLoader,
    digest_file,
    find_files,
    selector,
)
from knowport.core.chunking import ChunkingOptions
from knowport.errors import InvalidInput
from knowport.model import Generation, IndexedChunk, SearchHit, SearchRequest, StoredRow
from knowport.pipelines.ingest_ports import IngestPorts
from knowport.ports import Embedder
from support import HashEmbedder


class MemoryIndex:
    """Rows by id. ``before`` is called with the name of each writing call, and may raise."""

    def __init__(self) -> None:
        self.rows: dict[str, IndexedChunk] = {}
        self.upserts: list[int] = []
        self.refused: set[str] = set()
        self.before: Callable[[str], None] = lambda _: None
        self._guard = threading.Lock()

    def search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        raise NotImplementedError

    def count(self, *, kb_scope: str | None = None, doc_id: str | None = None) -> int:
        return sum(
            kb_scope in (None, row.kb_scope) and doc_id in (None, row.chunk.doc_id)
            for row in self.rows.values()
        )

    def check(self, chunks: Sequence[IndexedChunk]) -> None:
        for item in chunks:
            if item.chunk.doc_id in self.refused:
                raise InvalidInput("too long", field="content")

    def upsert_chunks(self, chunks: Sequence[IndexedChunk]) -> None:
        self.before("upsert")
        with self._guard:
            self.upserts.append(len(chunks))
            self.rows |= {f"{c.chunk.doc_id}#chunk-{c.chunk.chunk_index}": c for c in chunks}

    def delete_by_doc_id(self, doc_id: str, *, from_index: int = 0) -> int:
        self.before("delete")
        with self._guard:
            gone = [
                name
                for name, row in self.rows.items()
                if row.chunk.doc_id == doc_id and row.chunk.chunk_index >= from_index
            ]
            for name in gone:
                del self.rows[name]
        return len(gone)

    def iter_ids(self, *, doc_id: str | None = None) -> Iterator[str]:
        yield from (n for n, r in self.rows.items() if doc_id in (None, r.chunk.doc_id))

    def iter_rows(self, *, doc_id: str | None = None) -> Iterator[StoredRow]:
        raise NotImplementedError

    def text(self, doc_id: str) -> list[str]:
        """Contents of a document's chunks, in order."""
        rows = [row for row in self.rows.values() if row.chunk.doc_id == doc_id]
        return [row.chunk.content for row in sorted(rows, key=lambda row: row.chunk.chunk_index)]


@contextmanager
def ingest_ports(
    home: Path, embedder: Embedder | None = None, **changed: Any
) -> Iterator[IngestPorts]:
    """Ports over a SQLite ledger, real files and an index in memory; generation g1 is active."""
    embedder = embedder or HashEmbedder()
    ledger = SqlLedger(f"sqlite:///{home / 'ledger.db'}")
    if ledger.active_generation() is None:
        add_generation(ledger, "g1", embedder)
    with FileLoader() as loader:
        yield IngestPorts(
            **{
                "ledger": ledger,
                "chunking": ChunkingOptions(),
                "find": find_files,
                "selector": selector,
                "digest": digest_file,
                "load": loader.load,
                "load_bytes": loader.load_bytes,
                "loader_version": LOADER_VERSION,
                "embedder": embedder,
                "index": MemoryIndex(),
                "generation": "g1",
                **changed,
            }
        )
    ledger.close()


def add_generation(ledger: SqlLedger, name: str, embedder: Embedder) -> None:
    """Make a generation of that name the active one."""
    ledger.save_generation(
        Generation(
            name=name,
            collection=f"biz_{name}",
            embedder=embedder.identity,
            analyzer={},
            schema_version=1,
            lexical=True,
            proved_on="",
            created_at="2026-01-01T00:00:00+00:00",
            state="building",
        )
    )
    ledger.activate(name, activated_at="2026-01-01T00:00:00+00:00", forced=True)
