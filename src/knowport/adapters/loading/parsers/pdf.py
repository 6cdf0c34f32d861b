"""PDF documents, by PDFium."""

from __future__ import annotations

import re
import unicodedata

import pypdfium2
from pypdfium2 import raw

from knowport.adapters.loading.limits import LoadLimits, raised
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.archive import broken
from knowport.adapters.loading.parsers.markdown import check_length
from knowport.adapters.loading.parsers.titles import real_title
from knowport.adapters.loading.sniff import encrypted
from knowport.errors import LoadError

# What PDFium gives for a hyphen at a line's end, which is not part of the word.
_HYPHENATED = re.compile("(?:\ufffe|\x02)[ \n]*")
_FULL_LINE = 0.8  # of the page's longest line: a shorter one ends a paragraph or is a heading


def parse(data: bytes, limits: LoadLimits) -> Parsed:
    """Texts of the pages, a blank line between them.

    Raises LoadError: ``encrypted`` (also where only changes need a password), ``broken``,
    ``too_large``.
    """
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise encrypted() from error
        raise broken(f"The PDF cannot be opened: {error}") from error
    if raw.FPDF_GetSecurityHandlerRevision(document) >= 0:
        raise encrypted()
    count = len(document)
    if count > limits.pages:
        raise LoadError(
            f"The PDF has {count} pages; the limit is {limits.pages}.",
            reason="too_large",
            remedy=raised("pages"),
        )
    pages: list[str] = []
    length = 0
    for number in range(count):
        pages.append(_page(document, number))
        length += len(pages[-1])
        check_length(length, limits)
    return Parsed(
        "\n\n".join(filter(None, pages)),
        "pdf",
        text_format="plain",
        title=real_title(document.get_metadata_value("Title")),
        metadata={"pages": count},
    )


def _page(document: pypdfium2.PdfDocument, number: int) -> str:
    try:
        page = document[number]
        text = page.get_textpage().get_text_range()
    except pypdfium2.PdfiumError as error:
        raise broken(f"Page {number + 1} cannot be read: {error}") from error
    page.close()
    text = _HYPHENATED.sub("", text.replace("\r\n", "\n"))
    return _joined(text.split("\n"))


def _joined(lines: list[str]) -> str:
    """Lines of Chinese or Japanese are put together where the page only broke them: a word that
    is cut by a line end is found by nobody."""
    widths = [sum(2 if _is_wide(character) else 1 for character in line) for line in lines]
    full = _FULL_LINE * max(widths)
    pieces = lines[:1]
    for width, before, line in zip(widths, lines, lines[1:], strict=False):
        broken_word = width >= full and _is_letter(before[-1:]) and _is_letter(line[:1])
        pieces.append(line if broken_word else f"\n{line}")
    return "".join(pieces).strip()


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def _is_letter(character: str) -> bool:
    return character.isalpha() and _is_wide(character)
