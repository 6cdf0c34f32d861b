"""What a file is, told from its first bytes; its name only tells one kind of text from another."""

from __future__ import annotations

import re
from pathlib import PurePath

from knowport.errors import LoadError

HEAD_BYTES = 4_096

_BINARY = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"\0\0\1\0", "an icon"),
    (b"8BPS", "a Photoshop image"),
    (b"RIFF", "an audio, video or WebP file"),
    (b"OggS", "an audio or video file"),
    (b"ID3", "an MP3 file"),
    (b"\x1aE\xdf\xa3", "a Matroska video"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\0asm", "a WebAssembly program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
    (b"{\\rtf", "an RTF document"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_PDF = re.compile(rb"(?:\xef\xbb\xbf)?[\s\0]*%PDF-")
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(rb"<[!/a-z]", re.IGNORECASE)
_BOM = re.compile(rb"\A(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)")

_TEXT_ENDINGS = {
    "text": ".txt .text .log",
    "markdown": ".md .markdown .mdown .mkd .mdx",
    "rst": ".rst .rest",
    "asciidoc": ".adoc .asciidoc",
    "csv": ".csv .tsv",
    "code": """
        .bash .bat .c .cc .cfg .clj .cmake .conf .config .cpp .cs .css .dart .diff .env .erl .ex
        .fish .go .gradle .graphql .groovy .h .hcl .hpp .hs .ini .ipynb .java .jinja .js .json
        .json5 .jsonc .jsonl .jsx .kt .less .lua .m .mjs .ndjson .nix .patch .php .pl .properties
        .proto .ps1 .py .r .rb .rs .rules .sass .scala .scss .service .sh .sol .sql .svelte .svg
        .swift .tcl .tf .tfvars .toml .ts .tsx .vb .vue .xml .xsd .xsl .yaml .yml .zsh
    """,
}
TEXTS = frozenset(_TEXT_ENDINGS)
"""Kinds of text that only a name tells apart."""
_KINDS = {ending: kind for kind, endings in _TEXT_ENDINGS.items() for ending in endings.split()}
_HTML_ENDINGS = (".html", ".htm", ".xhtml", ".shtml")
_PARSED_ENDINGS = {
    ".pdf": "pdf",
    ".docx": "docx",
    ".pptx": "pptx",
    ".xlsx": "xlsx",
    **dict.fromkeys(_HTML_ENDINGS, "html"),
}


def sniff(data: bytes, name: str) -> str:
    """The kind of a content: ``pdf``, ``zip``, ``html``, or a text: ``markdown``, ``rst``,
    ``asciidoc``, ``csv``, ``code`` or ``text``.

    A text may still turn out to be binary data when it is decoded. Raises LoadError
    ``unsupported_format`` for a known format that has no text for us, ``encrypted`` for an office
    document with a password.
    """
    head = data[:HEAD_BYTES]
    ending = _ending(name)
    if _PDF.match(head) or (ending == ".pdf" and b"%PDF-" in head[:1_024]):
        return "pdf"
    if head.startswith(_ZIP):
        return "zip"
    if head.startswith(_OLE):
        raise _old_office(data)
    for prefix, what in _BINARY:
        if head.startswith(prefix):
            raise unsupported(what)
    if head[4:8] == b"ftyp":
        raise unsupported("a video or image")
    if data[257:262] == b"ustar":
        raise unsupported("a tar archive")
    letters = _BOM.sub(b"", head).replace(b"\0", b"")  # UTF-16 has a NUL beside each of them
    if _HTML.match(letters) or (ending in _HTML_ENDINGS and _TAG.search(letters)):
        return "html"
    return _KINDS.get(ending, "code" if head.startswith(b"#!") else "text")


def unsupported(what: str) -> LoadError:
    """The error for a format that is known and not read."""
    return LoadError(
        f"The file is {what}.",
        reason="unsupported_format",
        remedy="Known: Markdown, HTML, PDF, DOCX, PPTX, XLSX, CSV, reStructuredText, AsciiDoc, "
        "source code and plain text.",
    )


def named_kind(name: str) -> str:
    """The kind that the ending of a name promises, '' where it promises none."""
    ending = _ending(name)
    return _PARSED_ENDINGS.get(ending) or _KINDS.get(ending, "")


def _old_office(data: bytes) -> LoadError:
    if _ENCRYPTED_OFFICE in data:
        return encrypted()
    return LoadError(
        "The file is an old Office document (.doc, .xls, .ppt or .msg).",
        reason="unsupported_format",
        remedy="Save it as .docx, .xlsx, .pptx or PDF.",
    )


def encrypted() -> LoadError:
    """The error for a document with a password."""
    return LoadError(
        "The document is encrypted.",
        reason="encrypted",
        remedy="Save a copy without a password and without restrictions.",
    )


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower()
