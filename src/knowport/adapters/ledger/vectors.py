"""The embedding cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from sqlalchemy import select

from knowport.adapters.ledger.database import Store, insert_into, slices
from knowport.adapters.ledger.tables import vectors
from knowport.model import EmbedderIdentity, Vector

_FLOAT32 = np.dtype("<f4")


class VectorStore(Store):
    """See ``knowport.ports.Ledger``."""

    def cached_vectors(
        self, embedder: EmbedderIdentity, hashes: Sequence[str]
    ) -> Mapping[str, Vector]:
        key = _key(embedder)
        found: dict[str, Vector] = {}
        with self._read() as connection:
            for some in slices(hashes):
                query = select(vectors.c.text_hash, vectors.c.vector).where(
                    vectors.c.embedder == key, vectors.c.text_hash.in_(some)
                )
                for text_hash, blob in connection.execute(query):
                    found[text_hash] = np.frombuffer(blob, dtype=_FLOAT32).astype(np.float32)
        return found

    def store_vectors(self, embedder: EmbedderIdentity, new: Mapping[str, Vector]) -> None:
        if not new:
            return
        key = _key(embedder)
        rows = [
            {"embedder": key, "text_hash": name, "vector": vector.astype(_FLOAT32).tobytes()}
            for name, vector in new.items()
        ]
        with self._write() as connection:
            connection.execute(insert_into(connection, vectors).on_conflict_do_nothing(), rows)


def _key(embedder: EmbedderIdentity) -> str:
    return hashlib.sha256(json.dumps(asdict(embedder), sort_keys=True).encode()).hexdigest()
