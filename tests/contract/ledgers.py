"""Values that the contract tests of the ledger write."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from knowport.errors import LedgerError
from knowport.model import (
    ChunkMark,
    Document,
    DocumentInfo,
    EmbedderIdentity,
    Generation,
    PlannedWrite,
)
from knowport.ports import Ledger

EMBEDDER = EmbedderIdentity("openai", "m", 4, "query: ", "passage: ")
DOCUMENT = Document(
    doc_id="ops/disk.md",
    source="ops",
    title="磁盘 🚀",
    category="linux",
    kb_scope="default",
    text="# 磁盘\n\n先看监控。\n",
    text_format="markdown",
    content_hash="0" * 64,
    metadata={"owner": "sre"},
    file_hash="f" * 64,
)
GENERATION = Generation(
    name="g1",
    collection="biz_g1",
    embedder=EMBEDDER,
    analyzer={"tokenizer": "jieba", "filter": ["cnalphanumonly", {"type": "stop"}]},
    schema_version=1,
    lexical=True,
    proved_on="2.5.1 (lite)",
    created_at="2026-11-30T12:00:00+00:00",
    chunking={"size": 800, "overlap": 100, "version": 2},
    embedding={"base_url": "http://embed", "model": "m"},
    activated_at="2026-11-30T12:00:01+00:00",
    report={"documents": 2},
    forced=True,
)
# Ordered by code point; a dictionary, and a database with its collation, orders them otherwise.
IN_ORDER = ("-a", "A", "B", "_a", "a", "a b", "a-b", "a/b", "aB", "ab", "b", "Ä", "中", "🚀")


def marks(count: int, content: int = 0) -> tuple[ChunkMark, ...]:
    """Marks of that many chunks; ``content`` tells texts apart."""
    return tuple(
        ChunkMark(f"{content:032x}{number:032x}", 100 * number, 100 * number + 99)
        for number in range(count)
    )


def planned(document: Document = DOCUMENT, chunks: int = 1, content: int = 0) -> PlannedWrite:
    return PlannedWrite(document, marks(chunks, content))


def write(
    ledger: Ledger,
    *doc_ids: str,
    chunks: int = 1,
    content: int = 0,
    generation: str = "g1",
    **changes: Any,
) -> None:
    """Write documents whole; ``content`` decides their hash and their marks."""
    for doc_id in doc_ids:
        changed = replace(DOCUMENT, doc_id=doc_id, content_hash=f"{content:064x}", **changes)
        ledger.begin_writes([planned(changed, chunks, content)])
        ledger.commit_writes([doc_id], generation=generation)


def ids(infos: Iterable[DocumentInfo]) -> tuple[str, ...]:
    return tuple(info.doc_id for info in infos)


def failure(call: Callable[..., object], *arguments: object) -> tuple[str, str]:
    """What goes wrong, and all that a log would show of it."""
    with pytest.raises(LedgerError) as error:
        call(*arguments)
    assert error.value.exit_code == 11
    assert error.value.remedy
    return error.value.message, "".join(traceback.format_exception(error.value))


def names(generations: Sequence[Generation]) -> list[tuple[str, str]]:
    """Name and state of each."""
    return [(generation.name, generation.state) for generation in generations]
