"""adapters/embedding/remembered.py: the vectors of the last queries."""

from __future__ import annotations

import numpy as np
import pytest

from knowport.adapters.embedding.remembered import RememberedQueries
from knowport.model import Vector
from support import HashEmbedder


class Counting(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        return super().embed_query(text)


def test_a_query_is_embedded_once_until_others_push_it_out() -> None:
    inner = Counting()
    embedder = RememberedQueries(inner, size=2)

    for text in ("a", "b", "a", "c", "a", "b"):  # c pushes b out: a was asked for later
        np.testing.assert_array_equal(embedder.embed_query(text), HashEmbedder().embed_query(text))

    assert inner.asked == ["a", "b", "c", "b"]


def test_nothing_is_remembered_with_size_0_and_never_a_document() -> None:
    inner = Counting()
    embedder = RememberedQueries(inner, size=0)

    embedder.embed_query("a")
    embedder.embed_query("a")
    embedder.embed_documents(["a"])
    embedder.embed_documents(["a"])

    assert inner.asked == ["a", "a"]
    assert inner.documents_embedded == 2
    assert (embedder.identity, embedder.batch_size) == (inner.identity, inner.batch_size)


def test_what_others_get_too_cannot_be_written_to() -> None:
    vector = RememberedQueries(HashEmbedder(), size=2).embed_query("a")

    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1


def test_a_failure_is_not_remembered() -> None:
    class Failing(Counting):
        def embed_query(self, text: str) -> Vector:
            super().embed_query(text)
            if len(self.asked) == 1:
                raise RuntimeError("away")
            return HashEmbedder().embed_query(text)

    embedder = RememberedQueries(Failing(), size=2)

    with pytest.raises(RuntimeError, match="away"):
        embedder.embed_query("a")
    assert embedder.embed_query("a").shape == (HashEmbedder.dimension,)
