"""Chunks, vectors and requests for the contract tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from knowport.model import Chunk, IndexedChunk, SearchRequest, Vector

from .conftest import DIMENSION


def vector(*head: float) -> Vector:
    """The given numbers, then zeros."""
    return np.array([*head, *[0.0] * (DIMENSION - len(head))], dtype=np.float32)


def axis(number: int) -> Vector:
    return np.eye(DIMENSION, dtype=np.float32)[number]


def chunk(doc_id: str = "doc", number: int = 0, text: str = "text", **more: Any) -> IndexedChunk:
    """A chunk of a document; ``more`` names any other field of Chunk or IndexedChunk."""
    inner = {"title": "Title", "breadcrumb": "Top > Sub", "start": 0, "end": len(text)}
    outer = {
        "source": "file.md",
        "category": "",
        "kb_scope": "default",
        "content_hash": "0" * 64,
        "search_text": text,
        "vector": axis(0),
        "metadata": {},
    }
    given = {"content": text, **inner, **outer, **more}
    return IndexedChunk(
        chunk=Chunk(
            doc_id=doc_id,
            chunk_index=number,
            **{name: given[name] for name in ("content", *inner)},
        ),
        **{name: given[name] for name in outer},
    )


def request(query: str = "text", **more: Any) -> SearchRequest:
    given: dict[str, Any] = {"vector": axis(0), "kb_scope": "default", "mode": "dense", **more}
    return SearchRequest(query=query, **given)
