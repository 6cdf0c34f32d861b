"""Reads what an embeddings endpoint answered: vectors in the order of the texts, or the trouble."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from knowport.adapters.embedding.transport import NoReply, Reply
from knowport.errors import EmbeddingError

_LONGEST_MESSAGE = 300


class Kind(Enum):
    """What to do about a trouble."""

    TRANSIENT = auto()  # wait and send the same again
    TOO_LONG = auto()  # one of the texts is too long for the model
    NOT_A_NUMBER = auto()  # the model gives NaN for one of the texts
    BATCH = auto()  # too many texts in one request
    DIMENSIONS = auto()  # the model cannot give that many dimensions
    KEY = auto()
    NOT_FOUND = auto()
    NOT_JSON = auto()
    REFUSED = auto()  # anything else


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there are no vectors; ``message`` is free of secrets and short."""

    kind: Kind
    message: str
    retry_after: str | None = None


# The first pattern that fits decides. llama.cpp speaks of a batch size when one text is too long,
# and TEI of tokens, so these come before the general ones. Servers were seen to send such messages
# with these statuses.
_STATUSES_WITH_REASONS = {200, 400, 413, 422, 500}
_KINDS_BY_MESSAGE = (
    (Kind.NOT_A_NUMBER, r"unsupported value: [+-]?(nan|inf)|\bnan\b.{0,40}embedding"),
    (Kind.TOO_LONG, r"too large to process|context (length|size|window)|too many tokens"),
    (Kind.TOO_LONG, r"\d+ tokens|tokens? (limit|count)|max\w* .{0,20}tokens"),
    (Kind.TOO_LONG, r"(input|text|prompt)\b.{0,30}too long"),
    (Kind.BATCH, r"batch.?size|in one batch|array too long|too many (inputs|texts|items)"),
    (Kind.BATCH, r"number of (inputs|texts)"),
    (Kind.DIMENSIONS, r"dimension|matryoshka"),
)
_TRANSIENT_CODES = re.compile(
    r"rate.?limit|too.?many.?requests|overload|unavailable|server.?error|timeout", re.IGNORECASE
)
_SPENT = re.compile(r"insufficient.?quota|billing", re.IGNORECASE)


def read_reply(reply: Reply | NoReply, *, scrub: Callable[[str], str]) -> list[object] | Trouble:
    """The vectors' raw entries of a reply, or what is wrong; ``scrub`` takes secrets out."""
    if isinstance(reply, NoReply):
        return Trouble(Kind.TRANSIENT, _shown(reply.reason, scrub))
    try:
        content = json.loads(reply.body)  # takes NaN too, which the vector checks then find
    except (ValueError, RecursionError):
        return _not_json(reply, scrub)
    body = content if isinstance(content, dict) else {}
    if reply.status >= 300 or body.get("error"):
        return _refusal(reply, content, scrub)
    data = body.get("data")
    if not isinstance(data, list):
        return Trouble(Kind.REFUSED, f"HTTP {reply.status} without a list `data`")
    return data


def _not_json(reply: Reply, scrub: Callable[[str], str]) -> Trouble:
    text = " ".join(reply.body.decode(errors="replace").split())
    kind = Kind.NOT_JSON if reply.status < 300 else _kind(reply.status, "", text)
    what = f"{reply.content_type}, not JSON: {text}" if text else "an empty body"
    return Trouble(kind, _shown(f"HTTP {reply.status} with {what}", scrub), reply.retry_after)


def _refusal(reply: Reply, content: object, scrub: Callable[[str], str]) -> Trouble:
    message, code = _message_and_code(content)
    # Some gateways answer 200 and put the status of the failure into the body.
    hidden = reply.status < 300 and re.fullmatch("[45][0-9][0-9]", code)
    kind = _kind(int(code) if hidden else reply.status, code, message)
    told = f"HTTP {reply.status}: {message}" + (f" (code {code})" if code else "")
    return Trouble(kind, _shown(told, scrub), reply.retry_after)


def _kind(status: int, code: str, message: str) -> Kind:
    if status in _STATUSES_WITH_REASONS:
        for kind, pattern in _KINDS_BY_MESSAGE:
            if re.search(pattern, message, re.IGNORECASE):
                return kind
    return _kind_by_status(status, code)


def _kind_by_status(status: int, code: str) -> Kind:
    if status in {401, 403}:
        return Kind.KEY
    if status == 404:
        return Kind.NOT_FOUND
    if status == 413:
        return Kind.BATCH
    if _SPENT.search(code):  # a 429 that no waiting helps
        return Kind.REFUSED
    if status in {408, 409, 425, 429} or status >= 500 or _TRANSIENT_CODES.search(code):
        return Kind.TRANSIENT
    return Kind.REFUSED


def _message_and_code(content: object) -> tuple[str, str]:
    """Message and code of an error body, in the shapes that servers use."""
    if not isinstance(content, dict):
        return json.dumps(content), ""
    error = content.get("error") or content  # {"error": {...}}, {"error": "..."} or {...}
    if not isinstance(error, dict):
        return str(error), ""
    message = error.get("message") or error.get("detail") or error
    code = error.get("code") or error.get("type") or ""
    return str(message), str(code)


def _shown(text: str, scrub: Callable[[str], str]) -> str:
    text = scrub(text).rstrip(" .")  # before the cut, which might leave half a key
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


def vectors_in_order(entries: list[object], *, count: int, first: int) -> list[object]:
    """The vectors of ``count`` texts in the order of the texts, unchecked; base64 is decoded.

    Entries are placed by their ``index``; only where none has one does their order count. ``first``
    is the position of the first text in the caller's list. Raises EmbeddingError.
    """
    items = [e if isinstance(e, Mapping) else {} for e in entries]
    if all("index" not in item for item in items):
        indexes: list[object] = list(range(len(items)))
    else:
        indexes = [item.get("index") for item in items]
    placed: dict[int, object] = {}
    for index, item in zip(indexes, items, strict=True):
        if isinstance(index, bool) or not isinstance(index, int):
            raise EmbeddingError(
                "The embedding endpoint sent an index that is missing or not a whole number."
            )
        if not 0 <= index < count:
            raise EmbeddingError(
                f"The embedding endpoint sent index {index}, but {count} texts were asked for."
            )
        if index in placed:
            raise EmbeddingError(f"The embedding endpoint sent index {index} twice.")
        placed[index] = item.get("embedding")
    missing = [i for i in range(count) if i not in placed]
    if missing:
        raise EmbeddingError(
            f"The embedding endpoint sent {len(placed)} vectors for {count} texts; "
            f"that of the text at position {first + missing[0]} is missing.",
            position=first + missing[0],
        )
    return [_decoded(placed[i], position=first + i) for i in range(count)]


def _decoded(vector: object, *, position: int) -> object:
    """``vector`` itself, or the little-endian float32 numbers that its base64 text holds."""
    if not isinstance(vector, str):
        return vector
    try:
        return np.frombuffer(base64.b64decode(vector, validate=True), dtype="<f4")
    except (binascii.Error, ValueError):
        raise EmbeddingError(
            f"The vector of the text at position {position} is neither a list of numbers "
            "nor base64 of float32.",
            position=position,
        ) from None
