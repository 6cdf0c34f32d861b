"""An embedder that its maker did not check."""

from __future__ import annotations

from collections.abc import Sequence

from knowport.adapters.embedding.checks import checked_matrix, checked_texts
from knowport.model import EmbedderIdentity, Matrix, Vector
from knowport.ports import Embedder


class CheckedEmbedder:
    """Wraps a user's embedder with the checks that ours make of themselves."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    @property
    def identity(self) -> EmbedderIdentity:
        return self._inner.identity

    @property
    def batch_size(self) -> int:
        return self._inner.batch_size

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self._check([self._inner.embed_query(checked_texts([text])[0])], 1)[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return self._check(self._inner.embed_documents(checked_texts(texts)), len(texts))

    def _check(self, vectors: Sequence[object] | Matrix, count: int) -> Matrix:
        identity = self._inner.identity
        return checked_matrix(
            vectors,
            count=count,
            dimension=identity.dimension,
            what=f"{identity.provider} {identity.model}",
        )
