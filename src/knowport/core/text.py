"""Cleaning and measuring of text. Offsets and lengths are in code points unless named bytes."""

from __future__ import annotations

from dataclasses import dataclass

import regex

JOINS_LEFT = r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]"
"""Class of characters that belong to the grapheme before them: marks, joiners, variations."""

_SEPARATOR = regex.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_UNWANTED = regex.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\U000e0000-\U000e007f\ud800-\udfff]"
)
# \X counts back over all flags before a flag, which takes quadratic time on a run of them.
_GRAPHEME = regex.compile(rf"\p{{RI}}\p{{RI}}{JOINS_LEFT}*+|\X")
# Such a character always begins a grapheme, so segmentation may start there instead of at the
# beginning of the text. (?r) searches from the right.
_SURE_BORDER = regex.compile(
    r"(?r)(?<![\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=Prepend}])[\p{GCB=Other}\p{GCB=LF}]"
)


@dataclass(frozen=True, slots=True)
class CleanText:
    """A normalised text; ``removed`` counts the characters that were dropped as unwanted."""

    text: str
    removed: int


def normalise_text(raw: str) -> CleanText:
    """Text with LF line ends and without BOM, control and invisible tag characters.

    Every separator (CR LF, CR, VT, FF, NEL, U+2028, U+2029) becomes LF, because dropping it would
    glue two words. All other C0 and C1 controls except tab, U+FEFF, U+E0000 to U+E007F (used to
    hide instructions from people) and lone surrogates are dropped. The leading BOM and changed
    line ends do not count as removed. Applying it twice changes nothing.
    """
    lines = _SEPARATOR.sub("\n", raw.removeprefix("\ufeff"))
    text, removed = _UNWANTED.subn("", lines)
    return CleanText(text, removed)


def utf8_length(text: str) -> int:
    """Length in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def utf8_reach(text: str, start: int, end: int, max_bytes: int) -> int:
    """Largest offset in ``start..end`` for which ``text[start:offset]`` is within ``max_bytes``."""
    # A character is at least one byte, so a longer window cannot fit.
    window = text[start : max(start, min(end, start + max_bytes))]
    if window.isascii():
        return start + len(window)
    raw = window.encode("utf-8", "surrogatepass")
    if len(raw) <= max_bytes:
        return start + len(window)
    cut = max_bytes
    while raw[cut] & 0xC0 == 0x80:  # inside a character
        cut -= 1
    return start + len(raw[:cut].decode("utf-8", "surrogatepass"))


def grapheme_cut(text: str, limit: int, start: int = 0) -> int:
    """Largest offset in ``start..limit`` at a grapheme border.

    ``start`` is taken as a border. Where the grapheme at ``start`` alone reaches beyond ``limit``
    the answer is ``limit``, so that sizes always hold. Works on the characters near ``limit``
    only.
    """
    if limit >= len(text):
        return len(text)
    if limit <= start:
        return start
    sure = _SURE_BORDER.search(text, start, limit + 1)
    border = sure.start() if sure else start
    if border == limit:
        return limit
    # One character past the limit is enough to see whether a grapheme crosses it.
    for grapheme in _GRAPHEME.finditer(text, border, limit + 1):
        if grapheme.end() > limit:
            break
        border = grapheme.end()
    return border if border > start else limit


def grapheme_end(text: str, start: int, limit: int) -> int:
    """End of the grapheme that begins at ``start``, at most ``limit``."""
    grapheme = _GRAPHEME.match(text, start, limit)
    return grapheme.end() if grapheme else limit


def clip_utf8(text: str, max_bytes: int) -> str:
    """Longest prefix within ``max_bytes`` UTF-8 bytes that ends at a grapheme border.

    A first grapheme that is longer on its own is cut between code points.
    """
    return text[: grapheme_cut(text, utf8_reach(text, 0, len(text), max(0, max_bytes)))]
