"""Documents and chunks as resources, never longer than the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mcp.types import TextResourceContents

from knowport.client.values import ChunkText, DocumentText
from knowport.core.text import grapheme_cut
from knowport.entrypoints.mcp.uris import uri_of
from knowport.errors import InvalidInput

About: TypeAlias = dict[str, str | int]
PAGE = 100
"""Documents on one page of the list."""


def chunk_contents(uri: str, chunk: ChunkText, *, max_bytes: int) -> TextResourceContents:
    """The text of a chunk; of one beyond the limit the beginning, and where its document is."""
    about: About = {
        "document_id": chunk.id,
        "title": chunk.title,
        "breadcrumb": chunk.breadcrumb,
        "source": chunk.source,
        "start": chunk.start,
        "end": chunk.end,
    }

    def made(length: int) -> TextResourceContents:
        rest = uri_of("document", chunk.doc_id, offset=chunk.start)
        return _contents(
            uri, chunk.content[:length], rest if length < len(chunk.content) else "", about
        )

    return _fitting(made, chunk.content, max_bytes)


def document_contents(
    uri: str, document: DocumentText, offset: int, *, max_bytes: int
) -> TextResourceContents:
    """The text of a document from a character on, as far as the limit allows."""
    info, text = document.info, document.text
    if offset and offset >= len(text):
        raise InvalidInput(
            f"Document {info.doc_id!r} has {len(text)} characters; there is no offset {offset}.",
            field="offset",
        )
    about: About = {
        "doc_id": info.doc_id,
        "title": info.title,
        "source": info.source,
        "category": info.category,
        "length": len(text),
    }
    asked = text[offset:]

    def made(length: int) -> TextResourceContents:
        end = offset + length
        rest = uri_of("document", info.doc_id, offset=end) if end < len(text) else ""
        return _contents(uri, asked[:length], rest, {**about, "start": offset, "end": end})

    return _fitting(made, asked, max_bytes)


def _contents(uri: str, text: str, rest: str, about: About) -> TextResourceContents:
    """``rest`` is where to read on, '' where the text is whole."""
    if rest:
        text += f"\n\n[Cut to the limit of a reply. Read on: {rest}]"
    meta = {**about, "truncated": bool(rest), **({"next": rest} if rest else {})}
    return TextResourceContents(uri=uri, mime_type="text/plain", text=text, _meta=meta)


def _fitting(
    made: Callable[[int], TextResourceContents], text: str, max_bytes: int
) -> TextResourceContents:
    """What is made of the longest beginning of a text that was found to fit the limit."""
    length = len(text) if len(text) <= max_bytes else grapheme_cut(text, max_bytes)
    contents = made(length)
    while length and (size := len(contents.model_dump_json(by_alias=True).encode())) > max_bytes:
        length = grapheme_cut(text, int(length * 0.95 * max_bytes / size))
        contents = made(length)
    return contents
