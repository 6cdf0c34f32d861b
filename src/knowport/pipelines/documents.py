"""From what a loader or a caller gives to a document."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace

from knowport.core.chunking import document_title, title_line
from knowport.core.compose import content_hash
from knowport.core.filter_values import checked_filter
from knowport.core.front_matter import FrontMatter, split_front_matter
from knowport.core.identity import make_doc_id
from knowport.core.text import normalise_text
from knowport.errors import InvalidInput
from knowport.model import Document, LoadedFile, Metadata

# Raised when documents are made of files in another way: every file is then parsed again.
DOCUMENT_VERSION = 1
FILE_KEY = "file"
"""In a document's metadata: what its file is (kind, encoding, pages ...). It wins over a value of
that name in front matter."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of a document beside its text.

    A ``title`` here wins over that of the text, and ``name`` is the title of a text without one.
    ``category`` wins over the front matter's, which ``other_category`` stands in for.
    ``metadata`` is laid over the front matter's.
    """

    doc_id: str
    source: str
    kb_scope: str
    name: str
    title: str = ""
    category: str | None = None
    other_category: str | None = None
    metadata: Metadata = field(default_factory=dict)


def build_document(loaded: LoadedFile, origin: Origin, *, file_hash: str = "") -> Document:
    """The document of a loaded text; with a ``file_hash``, of a file, which its metadata tells of.

    Raises InvalidInput for a category in the front matter.
    """
    text = normalise_text(loaded.text).text
    front = split_front_matter(text) if loaded.text_format == "markdown" else FrontMatter()
    fields = ("title", "category")
    rest = {key: value for key, value in front.values.items() if key not in fields}
    title = (
        title_line(origin.title)
        or document_title(text, loaded.text_format, front)
        or title_line(normalise_text(loaded.title).text)
        or origin.name
    )
    document = Document(
        doc_id=origin.doc_id,
        source=origin.source,
        title=title,
        category=_category(origin, front.values.get("category")),
        kb_scope=origin.kb_scope,
        text=text,
        text_format=loaded.text_format,
        content_hash="",
        metadata={**rest, **origin.metadata, **(_of_file(loaded) if file_hash else {})},
        file_hash=file_hash,
    )
    return replace(document, content_hash=content_hash(document))


def _category(origin: Origin, from_front_matter: object) -> str:
    for value in (origin.category, origin.other_category):
        if value is not None:
            return checked_filter(value, field="category") or ""
    if isinstance(from_front_matter, str):
        return checked_filter(from_front_matter, field="category") or ""
    return ""


def _of_file(loaded: LoadedFile) -> Metadata:
    known = {"kind": loaded.kind, "encoding": loaded.encoding, **loaded.metadata}
    return {FILE_KEY: {name: value for name, value in known.items() if value not in ("", None)}}


def file_key(raw_hash: str, origin: Origin, loader_version: str) -> str:
    """Hex SHA-256 of a file's bytes (by their hash) and of every option that decides the document.

    Equal keys give equal documents, so a file of a known key need not be parsed.
    """
    payload = [
        DOCUMENT_VERSION,
        loader_version,
        raw_hash,
        origin.doc_id,
        origin.source,
        origin.kb_scope,
        origin.name,
        origin.title,
        origin.category,
        origin.other_category,
        dict(origin.metadata),
    ]
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


def checked_scope(kb_scope: str) -> str:
    """The scope as it is stored. Raises InvalidInput for a blank one."""
    scope = checked_filter(kb_scope, field="kb_scope")
    if scope is None:
        raise InvalidInput("kb_scope is blank.", field="kb_scope", remedy="Name a scope.")
    return scope


def checked_metadata(metadata: Metadata) -> Metadata:
    """Metadata that JSON can hold, with its texts free of what no index stores.

    Raises InvalidInput.
    """
    try:
        text = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"The metadata cannot be written as JSON: {error}.", field="metadata"
        ) from error
    # Control characters are escaped in JSON, so only what cannot be stored is dropped here.
    checked: Metadata = json.loads(normalise_text(text).text)
    return checked


def checked_source(source: str) -> str:
    """The name of an origin, which must be able to begin a document id. Raises InvalidInput."""
    make_doc_id(source, "x")
    return source
