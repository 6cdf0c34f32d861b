"""One attempt at an embeddings endpoint: bytes out, bytes in, within a time limit.

The openai SDK builds, sends and authenticates the request. Its typed replies are not used: they
hide the content type, the code of an error in a 200 reply, and whether the vectors came as lists
or as base64. Its retries are off, because there must be one layer of retries only, and it is in
``openai.py``.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import openai

from knowport.errors import ConfigurationError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered, whatever the status."""

    status: int
    content_type: str
    retry_after: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class NoReply:
    """The server could not be reached or took too long; ``reason`` is prose."""

    reason: str


class EmbeddingsEndpoint:
    """``POST {base_url}/embeddings`` for one model; safe to call from several threads."""

    def __init__(
        self, base_url: str, model: str, *, api_key: str | None, dimensions: int | None
    ) -> None:
        """``dimensions`` is sent along unless it is None. Raises ConfigurationError."""
        self._model = model
        self._extra = {} if dimensions is None else {"dimensions": dimensions}
        self._client = openai.OpenAI(
            base_url=_checked_url(base_url),
            # Without a key the SDK would send the one in OPENAI_API_KEY to whatever server this is.
            api_key=_checked_key(api_key) or "not-needed",
            max_retries=0,
        )

    def post(self, texts: list[str], *, timeout: float) -> Reply | NoReply:
        """Ask for the vectors of ``texts``; returns within ``timeout`` seconds.

        The limit of the HTTP library holds for each read: a server that sends a byte now and then,
        as some do to keep a queued request alive, would hold us for ever. So would a slow resolver.
        """
        late = NoReply(f"no complete reply within {timeout:.3g} s")
        return _within(timeout, lambda: self._send(texts, timeout)) or late

    def _send(self, texts: list[str], timeout: float) -> Reply | NoReply | None:
        # The SDK's errors quote the server's message, which may quote the key. They become values
        # here, so that no traceback can hold one.
        try:
            response = self._client.embeddings.with_raw_response.create(
                model=self._model,
                input=texts,
                encoding_format="float",  # the SDK asks for base64 otherwise, which some ignore
                extra_body=self._extra,
                timeout=timeout,
            ).http_response
        except openai.APIStatusError as error:
            response = error.response
        except openai.APITimeoutError:
            return None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            return NoReply(f"{type(cause).__name__}: {cause}")
        return Reply(
            status=response.status_code,
            content_type=response.headers.get("content-type", "no content type"),
            retry_after=response.headers.get("retry-after"),
            body=response.content,
        )


def _within(seconds: float, call: Callable[[], T]) -> T | None:
    """The result of ``call``, or None if it takes longer; then it is left to itself.

    It runs in a daemon thread, which unlike a pool's does not hold up the end of the process.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="embeddings").start()
    try:
        return future.result(timeout=seconds)
    except TimeoutError:
        return None


def _checked_url(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(
            "`embedding.base_url` is not an http(s) address.",
            remedy="Write it like http://127.0.0.1:8000/v1.",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        # The HTTP library logs addresses, so what is in them is no secret.
        raise ConfigurationError(
            "`embedding.base_url` must have no user, password, query or fragment.",
            remedy="Put the secret into `embedding.api_key`.",
        )
    return base_url


def _checked_key(api_key: str | None) -> str | None:
    # The HTTP library quotes a header that it cannot send in its error, and so the key.
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        raise ConfigurationError(
            "`embedding.api_key` holds a line break or another character that no header may hold.",
            remedy="Copy the key again, without a line end.",
        )
    if api_key is not None and api_key != api_key.strip():
        raise ConfigurationError(
            "`embedding.api_key` begins or ends with a blank.", remedy="Copy the key again."
        )
    return api_key
