"""An embedder that remembers the vectors of the last queries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from knowport.model import EmbedderIdentity, Matrix, Vector
from knowport.ports import Embedder


class RememberedQueries:
    """Wraps an embedder; agents ask the same question again and again, and embedding it is most of
    a lookup. ``size`` vectors are kept, and those that were not asked for longest go first.

    Nothing is held while embedding: of two equal queries at once both are embedded.
    """

    def __init__(self, inner: Embedder, size: int) -> None:
        self._inner, self._size = inner, size
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._guard = threading.Lock()

    @property
    def identity(self) -> EmbedderIdentity:
        return self._inner.identity

    @property
    def batch_size(self) -> int:
        return self._inner.batch_size

    def embed_query(self, text: str) -> Vector:
        """As the embedder gives it; read-only, because others get the same array."""
        with self._guard:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
        vector = self._inner.embed_query(text)
        vector.flags.writeable = False
        with self._guard:
            self._known[text] = vector
            self._known.move_to_end(text)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return self._inner.embed_documents(texts)
