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
# ０-９, Ａ-Ｚ and ａ-ｚ
_FULL_WIDTH = re.compile(rb"\xef(?:\xbc[\x90-\x99\xa1-\xba]|\xbd[\x81-\x9a])")


def search_text(chunk: Chunk) -> str:
    """Title, breadcrumb and content in NFKC, so that full-width and half-width forms meet.

    The title is left out where the breadcrumb begins with it: said twice it would weigh twice.
    """
    head = chunk.breadcrumb
    if not f"{chunk.breadcrumb} ".startswith(f"{chunk.title} "):
        head = f"{chunk.title}\n{chunk.breadcrumb}" if chunk.breadcrumb else chunk.title
    return unicodedata.normalize("NFKC", f"{head}\n{chunk.content}".strip())


def lexical_text(hit: SearchHit) -> bytes:
    """Title, breadcrumb and content, to look for a query's terms in; see ``folded``."""
    return folded(f"{hit.title}\n{hit.breadcrumb}\n{hit.content}")


def folded(text: str) -> bytes:
    """A text as terms are looked for in it: UTF-8, in which Latin letters are lower case.

    Bytes, because all hits of every lookup are read so, and over Chinese text ``str.lower`` and a
    regular expression take twice as long as on bytes. NFKC only where there are full-width
    letters or digits: it rewrites every Chinese punctuation mark.
    """
    data = text.encode("utf-8", "replace")
    if _FULL_WIDTH.search(data):
        data = unicodedata.normalize("NFKC", text).encode("utf-8", "replace")
    return data.lower()


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
