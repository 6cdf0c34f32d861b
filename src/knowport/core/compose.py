"""The text of a chunk that is searched: title, breadcrumb and content.

BM25 and the embedder read the same text; the agent gets the chunk's content and never this.
"""

from __future__ import annotations

import hashlib
import unicodedata

from knowport.model import Chunk, SearchHit


def search_text(chunk: Chunk | SearchHit) -> str:
    """Title, breadcrumb and content in NFKC, so that full-width and half-width forms meet.

    The title is left out where the breadcrumb begins with it: said twice it would weigh twice.
    """
    head = chunk.breadcrumb
    if not f"{chunk.breadcrumb} ".startswith(f"{chunk.title} "):
        head = f"{chunk.title}\n{chunk.breadcrumb}" if chunk.breadcrumb else chunk.title
    return unicodedata.normalize("NFKC", f"{head}\n{chunk.content}".strip())


def text_hash(text: str) -> str:
    """Hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()
