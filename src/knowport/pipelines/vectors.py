"""Vectors of texts: from the cache, else from the embedder, in batches that it likes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from knowport.errors import EmbeddingError
from knowport.model import Vector
from knowport.ports import Embedder, Ledger


class Vectors:
    """The vectors of one group of texts, by text hash, in ``known``.

    ``embedded`` counts the texts that the embedder was asked for.
    """

    def __init__(self, embedder: Embedder, ledger: Ledger) -> None:
        self._embedder, self._ledger = embedder, ledger
        self.known: dict[str, Vector] = {}
        self.embedded = 0

    def fill(
        self,
        texts: Mapping[str, str],
        *,
        keys: Mapping[str, str],
        should_stop: Callable[[], bool] = lambda: False,
        on_batch: Callable[[float], None] = lambda _: None,
        refuse: Callable[[str, EmbeddingError], set[str]] | None = None,
    ) -> bool:
        """Fill ``known`` for all texts; returns whether it was stopped before.

        ``keys`` are the evidence keys of the texts, for errors to name. ``on_batch`` hears the
        share that is done, 0..1. ``refuse`` is told of a text that the embedder refuses and
        returns the hashes that nobody needs any more; without it, and for a failure that is no
        single text's fault, EmbeddingError is raised. What was embedded is in the cache already.
        """
        identity = self._embedder.identity
        self.known.update(self._ledger.cached_vectors(identity, list(texts)))
        missing = [name for name in texts if name not in self.known]
        total = len(missing)
        while missing:
            if should_stop():
                return True
            batch = missing[: self._embedder.batch_size]
            try:
                matrix = self._embedder.embed_documents([texts[name] for name in batch])
            except EmbeddingError as error:
                if error.position is None:
                    error.message = f"In the batch from {keys[batch[0]]}: {error.message}"
                    raise
                error.message = f"{keys[batch[error.position]]}: {error.message}"
                if refuse is None:
                    raise
                unneeded = refuse(batch[error.position], error)
                missing = [name for name in missing if name not in unneeded]
                continue
            new = dict(zip(batch, matrix, strict=True))
            self._ledger.store_vectors(identity, new)
            self.known.update(new)
            self.embedded += len(batch)
            missing = missing[len(batch) :]
            on_batch(1 - len(missing) / total)
        return False
