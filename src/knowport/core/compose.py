"""The text of a chunk that is searched (title, breadcrumb and content), and the hashes of texts.

BM25 and the embedder read the same text; the agent gets the chunk's content and never this.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import asdict

from knowport.model import Chunk, Document, SearchHit

_SLICE = 1_000_000  # characters
_FULL_WIDTH = re.compile("[０-９Ａ-Ｚａ-ｚ]")


def search_text(chunk: Chunk) -> str:
    """Title, breadcrumb and content in NFKC, so that full-width and half-width forms meet.

    The title is left out where the breadcrumb begins with it: said twice it would weigh twice.
    """
    head = chunk.breadcrumb
    if not f"{chunk.breadcrumb} ".startswith(f"{chunk.title} "):
        head = f"{chunk.title}\n{chunk.breadcrumb}" if chunk.breadcrumb else chunk.title
    return unicodedata.normalize("NFKC", f"{head}\n{chunk.content}".strip())


def lexical_text(hit: SearchHit) -> str:
    """Title, breadcrumb and content in lower case, to look for a query's terms in."""
    return folded(f"{hit.title}\n{hit.breadcrumb}\n{hit.content}")


def folded(text: str) -> str:
    """A text in lower case, as terms are looked for in it.

    NFKC only where there are full-width letters or digits: over Chinese text it rewrites every
    punctuation mark, which for the hits of a lookup takes longer than all the looking.
    """
    if _FULL_WIDTH.search(text):
        text = unicodedata.normalize("NFKC", text)
    return text.lower()


def text_hash(text: str) -> str:
    """Hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def content_hash(document: Document) -> str:
    """Hex SHA-256 of every field of a document that reaches the index."""
    fields = asdict(document) | {"metadata": dict(document.metadata)}
    del fields["content_hash"], fields["file_hash"], fields["text"]
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True, ensure_ascii=False).encode())
    # In slices, because of a large text every copy counts.
    for start in range(0, len(document.text), _SLICE):
        digest.update(document.text[start : start + _SLICE].encode())
    return digest.hexdigest()
