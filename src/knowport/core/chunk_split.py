"""Cuts prose into pieces: paragraph > line > sentence > clause or space > grapheme.

Every function takes linear time: each looks only at the text near the piece it cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import regex

from knowport.core.text import JOINS_LEFT, grapheme_cut, grapheme_end, utf8_length, utf8_reach


@dataclass(frozen=True, slots=True)
class Budget:
    """Room for text: ``chars`` code points and ``nbytes`` UTF-8 bytes."""

    chars: int
    nbytes: int

    def minus(self, text: str) -> Budget:
        """What is left beside ``text``; negative where there is not enough."""
        return Budget(self.chars - len(text), self.nbytes - utf8_length(text))

    def part(self, divisor: int) -> Budget:
        """A fraction of the room, but no less than one character takes."""
        return Budget(max(1, self.chars // divisor), max(4, self.nbytes // divisor))

    def holds(self, other: Budget) -> bool:
        return other.chars <= self.chars and other.nbytes <= self.nbytes

    def reach(self, text: str, start: int, end: int) -> int:
        """Largest offset in ``start..end`` up to which the text fits."""
        return utf8_reach(text, start, min(end, start + max(0, self.chars)), max(0, self.nbytes))


def measure(text: str) -> Budget:
    """The room that ``text`` takes."""
    return Budget(len(text), utf8_length(text))


@dataclass(frozen=True, slots=True)
class Piece:
    """``content`` stands for ``text[start:end]`` and may repeat a header or a fence line."""

    content: str
    start: int
    end: int


class Border(IntEnum):
    """Kinds of places to cut prose, best first."""

    END = 0
    PARAGRAPH = 1
    LINE = 2
    SENTENCE = 3
    WORD = 4
    GRAPHEME = 5


# Possessive runs, and lookbehinds that let a run be tried only once, keep these linear. The dot
# of a list number ("3. item") ends no sentence.
_SENTENCE_END = regex.compile(
    r"(?<![。！？；…｡])[。！？；…｡][。！？；…｡!?]*+[”’」』）)】》〉]*+"
    r"|(?<![.!?;])(?<!^[ \t>]*\d{1,9})[.!?;]++[\"'”’」』）)\]]*+(?=\s)",
    regex.MULTILINE,
)
_SENTENCE_OR_LINE_END = regex.compile(_SENTENCE_END.pattern + r"|(?=\n)", regex.MULTILINE)
_WORD_END = regex.compile(r"[，、：][”’」』）)】》〉]*+|(?<=\S)(?=\s)")
_LOOKAHEAD = 32  # the closing quotes of a sentence may stand beyond the limit of a piece
_JOINS_LEFT = regex.compile(JOINS_LEFT)
_SPACE = regex.compile(r"\s*+")


def split_prose(
    text: str, start: int, end: int, first: Budget, full: Budget, *, overlap: int = 0
) -> list[Piece]:
    """Pieces of ``text[start:end]``, the first within ``first``, the others within ``full``.

        A piece repeats at most ``overlap`` characters of the one before it, and at most half of it,
    so that every piece moves forward and all together hold less than twice the text. It repeats
    nothing where that would make it end inside a sentence that is whole otherwise.
    """
    pieces: list[Piece] = []
    budget, covered = first, start
    while start < end:
        cut, border = _next_cut(text, start, end, budget, covered)
        content = text[start:cut].rstrip()
        if content:
            pieces.append(Piece(content, start, start + len(content)))
        budget, covered = full, skip_space(text, cut, end)
        repeating = _repeating_start(text, start, cut, overlap) if overlap and content else cut
        start = covered
        if repeating < cut and covered < end:
            reached, with_overlap = _next_cut(text, repeating, end, full, covered)
            _, without = _next_cut(text, covered, end, full, covered)
            brings_text = reached > covered and not text[covered:reached].isspace()
            if brings_text and with_overlap <= max(border, without, Border.SENTENCE):
                start = repeating
    return pieces


def _next_cut(text: str, start: int, end: int, budget: Budget, floor: int) -> tuple[int, Border]:
    limit = budget.reach(text, start, end)
    return (end, Border.END) if limit >= end else best_cut(text, start, limit, floor)


def best_cut(text: str, start: int, limit: int, floor: int) -> tuple[int, Border]:
    """Best offset in ``floor + 1 .. limit`` to end a piece that begins at ``start``.

    A paragraph or line end is preferred where the piece is at least half full; earlier ones count
    like sentence ends. A word end in the first quarter is worse than cutting a long word.
    """
    room = limit - start
    paragraph = text.rfind("\n\n", floor + 1, limit + 2)
    if paragraph - start >= room / 2:
        return paragraph, Border.PARAGRAPH
    line = text.rfind("\n", floor + 1, limit + 1)
    if line - start >= room / 2:
        return line, Border.LINE
    sentence = _last_border(_SENTENCE_END, text, max(floor, line), limit)
    if max(sentence, line) > floor:
        return max(sentence, line), Border.SENTENCE
    word = _last_border(_WORD_END, text, max(floor, start + room // 4), limit)
    if word > floor:
        return word, Border.WORD
    return grapheme_cut(text, limit, start), Border.GRAPHEME


def _last_border(pattern: regex.Pattern[str], text: str, floor: int, limit: int) -> int:
    """Last offset in ``floor + 1 .. limit`` where a match ends; -1 where none does."""
    last = -1
    for match in pattern.finditer(text, floor, limit + _LOOKAHEAD):
        border = match.end()
        if border > limit:
            break
        if border > floor and not _JOINS_LEFT.match(text, border):
            last = border
    return last


def _repeating_start(text: str, start: int, cut: int, overlap: int) -> int:
    """Where a piece that repeats the end of ``text[start:cut]`` begins; ``cut`` for nowhere."""
    earliest = max(cut - overlap, (start + cut + 1) // 2)
    for pattern in (_SENTENCE_OR_LINE_END, _WORD_END):
        for match in pattern.finditer(text, earliest - 1, cut):
            border = skip_space(text, match.end(), cut)
            if earliest <= border < cut and not _JOINS_LEFT.match(text, border):
                return border
    if grapheme_end(text, start, cut) > earliest:
        return cut
    border = grapheme_cut(text, earliest, start)
    return border if border == earliest else grapheme_end(text, border, cut)


def skip_space(text: str, position: int, end: int) -> int:
    """Start of the next text: behind blank lines, but before the indentation of its line."""
    space = _SPACE.match(text, position, end)
    after = space.end() if space else position
    line = text.rfind("\n", position, after)
    if after == end:
        return end
    if line >= 0:
        return line + 1
    # A mark on a space makes one grapheme with it.
    return after - 1 if after > position and _JOINS_LEFT.match(text, after) else after
