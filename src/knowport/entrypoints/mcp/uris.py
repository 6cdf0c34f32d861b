"""URIs of documents and chunks: ``knowport://chunk/ID``, with the id percent-encoded.

Everything but letters, digits and ``-._~`` is encoded on the way out, so ``/`` and ``#`` of an id
never act as delimiters. On the way in an unencoded id is understood as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote

from knowport.errors import InvalidInput

Kind: TypeAlias = Literal["chunk", "document"]

CHUNK_TEMPLATE = "knowport://chunk/{document_id}"
DOCUMENT_TEMPLATE = "knowport://document/{doc_id}{?offset}"

_URI = re.compile(r"knowport://(chunk|document)/(.+?)(?:\?offset=([0-9]{1,12}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    """What a URI names; ``offset`` is the character of a document's text to read from."""

    kind: Kind
    id: str
    offset: int = 0


def uri_of(kind: Kind, identity: str, *, offset: int = 0) -> str:
    """The URI of a chunk (by evidence key) or of a document (by document id)."""
    return f"knowport://{kind}/{quote(identity, safe='')}" + (f"?offset={offset}" if offset else "")


def parse_uri(uri: str) -> Target:
    """What a URI names; raises InvalidInput for any other URI."""
    match = _URI.fullmatch(uri)
    if match is None:
        raise InvalidInput(
            f"{uri[:200]!r} is not a resource of this server.",
            field="uri",
            remedy=f"Resources are {CHUNK_TEMPLATE} and {DOCUMENT_TEMPLATE}, ids percent-encoded.",
        )
    kind: Kind = "chunk" if match[1] == "chunk" else "document"
    try:
        identity = unquote(match[2], errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{uri[:200]!r} is not UTF-8 below its percent-encoding.", field="uri"
        ) from None
    return Target(kind, identity, int(match[3] or 0))
