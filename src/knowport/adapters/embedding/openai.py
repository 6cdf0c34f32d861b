"""Embeddings from any endpoint that speaks the OpenAI protocol."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Sequence

import numpy as np

from knowport.adapters.embedding.checks import checked_matrix, checked_texts
from knowport.adapters.embedding.replies import Kind, Trouble, read_reply, vectors_in_order
from knowport.adapters.embedding.retry import Patience, wait_before_retry
from knowport.adapters.embedding.transport import EmbeddingsEndpoint
from knowport.errors import EmbeddingError, EmbeddingUnavailable
from knowport.model import EmbedderIdentity, Matrix, Vector

_log = logging.getLogger(__name__)

_BLAME_ONE_TEXT = {Kind.TOO_LONG, Kind.NOT_A_NUMBER}

_REMEDIES = {
    Kind.TRANSIENT: "Try again later; what is already stored stays, and ingest goes on from there.",
    Kind.TOO_LONG: "Lower `chunking.size` or use a model that takes longer texts.",
    Kind.NOT_A_NUMBER: "Leave that text out or use another model.",
    Kind.BATCH: "Lower `embedding.batch_size`.",
    Kind.DIMENSIONS: "Set `embedding.dimensions` to what the model gives, "
    "and `embedding.send_dimensions` to false if it gives one size only.",
    Kind.KEY: "Check `embedding.api_key`.",
    Kind.NOT_FOUND: "Check `embedding.base_url` (it often ends in /v1) and `embedding.model`.",
    Kind.NOT_JSON: "Check `embedding.base_url`; a proxy or a web page may be answering.",
    Kind.REFUSED: "",
}


class OpenAIEmbedder:
    """Embeds with ``POST {base_url}/embeddings``; safe to call from several threads.

    The identity leaves the address and the key out: the same model elsewhere gives the same
    vectors. The prefixes are put before the texts here and belong to the identity.

    Times, in seconds: ``timeout`` bounds each attempt for documents, and no retry starts later
    than ``max_total_wait`` after a batch's first attempt. ``query_timeout`` bounds a query with
    its one retry altogether. ``sleep``, ``clock``, ``wall_clock`` and ``rng`` are for tests.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        dimensions: int,
        *,
        api_key: str | None = None,
        send_dimensions: bool = False,
        batch_size: int = 10,
        timeout: float = 30.0,
        query_timeout: float = 10.0,
        max_retries: int = 5,
        query_prefix: str = "",
        document_prefix: str = "",
        max_total_wait: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        """Raises ConfigurationError for an address or a key that cannot be used."""
        self._identity = EmbedderIdentity(
            "openai", model, dimensions, query_prefix=query_prefix, document_prefix=document_prefix
        )
        self._endpoint = EmbeddingsEndpoint(
            base_url, model, api_key=api_key, dimensions=dimensions if send_dimensions else None
        )
        self._batch_size = batch_size
        self._for_documents = Patience(
            retries=max_retries,
            attempt=timeout,
            retry_until=max_total_wait,
            total=max_total_wait + timeout,
        )
        self._for_query = Patience(
            retries=min(1, max_retries),
            attempt=query_timeout,
            retry_until=query_timeout / 2,
            total=query_timeout,
        )
        self._api_key = api_key
        self._base_url = base_url
        self._sleep = sleep
        self._clock = clock
        self._wall_clock = wall_clock
        self._rng = rng or random.Random()

    @property
    def identity(self) -> EmbedderIdentity:
        return self._identity

    @property
    def batch_size(self) -> int:
        """Most texts in one request; longer lists are sent in several."""
        return self._batch_size

    def embed_query(self, text: str) -> Vector:
        """Vector of a query, shape ``(dimensions,)``, within ``query_timeout`` seconds.

        Raises EmbeddingError or EmbeddingUnavailable.
        """
        prefixed = self._identity.query_prefix + checked_texts([text])[0]
        vector: Vector = self._embed_batch([prefixed], 0, self._for_query)[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Vectors of texts in their order, shape ``(len(texts), dimensions)``.

        Raises EmbeddingError (with ``position`` where one text is to blame) or
        EmbeddingUnavailable.
        """
        prefixed = [self._identity.document_prefix + text for text in checked_texts(texts)]
        batches = [
            self._embed_batch(
                prefixed[first : first + self._batch_size], first, self._for_documents
            )
            for first in range(0, len(prefixed), self._batch_size)
        ]
        return np.concatenate([np.empty((0, self._identity.dimension), np.float32), *batches])

    def _embed_batch(self, texts: list[str], first: int, patience: Patience) -> Matrix:
        """One request; ``first`` is the position of its first text in the caller's list."""
        answer = self._ask(texts, patience)
        if isinstance(answer, Trouble):
            if answer.kind in _BLAME_ONE_TEXT and len(texts) > 1:
                return self._embed_singly(texts, first, patience)
            raise self._error(answer, texts, first)
        vectors = vectors_in_order(answer, count=len(texts), first=first)
        return checked_matrix(
            vectors,
            count=len(texts),
            dimension=self._identity.dimension,
            what="The embedding endpoint",
            first=first,
        )

    def _embed_singly(self, texts: list[str], first: int, patience: Patience) -> Matrix:
        """Each text in a request of its own: the one to blame raises its error."""
        rows = [self._embed_batch([t], first + i, patience) for i, t in enumerate(texts)]
        _log.warning(
            "The embedding endpoint took each of %d texts but not all at once; "
            "a lower `embedding.batch_size` saves requests.",
            len(texts),
        )
        return np.concatenate(rows)

    def _ask(self, texts: list[str], patience: Patience) -> list[object] | Trouble:
        """The raw vectors of one request, or a trouble that no retry helps.

        Raises EmbeddingUnavailable when the retries or the time are used up.
        """
        start = self._clock()
        retry = 0
        while True:
            left = start + patience.total - self._clock()
            reply = self._endpoint.post(texts, timeout=min(patience.attempt, left))
            answer = read_reply(reply, scrub=self._scrub)
            if not isinstance(answer, Trouble) or answer.kind is not Kind.TRANSIENT:
                return answer
            wait = wait_before_retry(
                retry, answer.retry_after, wall_time=self._wall_clock(), rng=self._rng
            )
            late = self._clock() - start + wait > patience.retry_until
            if retry >= patience.retries or late:
                raise EmbeddingUnavailable(
                    f"The embedding endpoint {self._base_url} gave no vectors "
                    f"in {retry + 1} attempts: {answer.message}.",
                    remedy=_REMEDIES[Kind.TRANSIENT],
                )
            retry += 1
            _log.warning("Embedding retry %d in %.1f s: %s", retry, wait, answer.message)
            self._sleep(wait)

    def _error(self, trouble: Trouble, texts: list[str], first: int) -> EmbeddingError:
        asked, position = "", None
        if trouble.kind in _BLAME_ONE_TEXT:
            asked = f" for the text at position {first} ({len(texts[0])} characters as sent)"
            position = first
        elif trouble.kind is Kind.BATCH:
            asked = f" for a batch of {len(texts)} texts"
        return EmbeddingError(
            f"The embedding endpoint {self._base_url} answered {trouble.message}{asked}.",
            remedy=_REMEDIES[trouble.kind],
            position=position,
        )

    def _scrub(self, message: str) -> str:
        """``message`` without our key and without anything that looks like one."""
        if self._api_key:
            message = message.replace(self._api_key, "[key]")
        return re.sub(r"\bsk-[\w*.-]+|\bBearer\s+\S+", "[key]", message)
