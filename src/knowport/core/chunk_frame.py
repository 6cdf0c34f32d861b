"""Cuts tables and code fences into pieces that each stand on their own.

A piece of a table repeats the header and delimiter rows; a piece of a fence is opened with the
same fence line and closed again. Both are cut between lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import regex

from knowport.core.chunk_split import Budget, Piece, best_cut, measure, skip_space
from knowport.core.markdown import Block, BlockKind
from knowport.core.text import grapheme_cut

_FENCE_OPENING = regex.compile(r" {0,3}(`{3,}+|~{3,}+)")
_FENCE_CLOSING = regex.compile(r"\n {0,3}(`{3,}+|~{3,}+)[ \t]*")
_FIRST_CELL = regex.compile(r"[ \t]*+\|?(?:[^|\\\n]|\\.)*+\|")


@dataclass(frozen=True, slots=True)
class Frame:
    """What the pieces of a table or a fence repeat.

    ``prefix`` and ``suffix`` go around every piece, but the first has its prefix in the text
    itself, up to ``head_end``. ``body_end`` is the end of the last line to place.
    """

    kind: BlockKind
    prefix: str
    suffix: str
    head_end: int
    body_end: int


def frame_of(text: str, block: Block, full: Budget) -> Frame | None:
    """What the pieces of a block repeat; None for prose and for a block without body lines.

    None as well where it would take more than half of a piece: size goes before repetition.
    """
    first_line = text.find("\n", block.start, block.end)
    if first_line < 0:
        return None
    head_end, body_end, suffix = first_line, block.end, ""
    if block.kind is BlockKind.TABLE:
        head_end = text.find("\n", first_line + 1, block.end)
    elif block.kind is BlockKind.FENCE and (opening := _FENCE_OPENING.match(text, block.start)):
        suffix = "\n" + opening[1]
        last_line = text.rfind("\n", block.start, block.end)
        closing = _FENCE_CLOSING.fullmatch(text, last_line, block.end)
        if closing and closing[1].startswith(opening[1]):
            body_end = last_line
    else:
        return None
    prefix = text[block.start : head_end + 1]
    if not 0 < head_end < body_end or not full.part(2).holds(measure(prefix + suffix)):
        return None
    return Frame(block.kind, prefix, suffix, head_end, body_end)


def split_framed(text: str, block: Block, frame: Frame, first: Budget, full: Budget) -> list[Piece]:
    """Pieces of a table or a fence, whole lines where they fit.

    The first piece is within ``first``, which must hold the frame twice; the others are within
    ``full``. A row that is too long is cut like prose, and its later pieces repeat its first cell
    as well; a line of code that is too long is cut at the size.
    """
    is_table = frame.kind is BlockKind.TABLE
    piece = _OpenPiece(text, frame, block.start, "", first)
    done: list[Piece] = []
    # The head of a table may stand alone under a heading; an empty fence would say nothing.
    filled = frame.head_end if is_table else block.start
    for start, end in _lines(text, frame.head_end + 1, frame.body_end):
        has_lines = filled > frame.head_end
        if end > piece.limit and filled > block.start:
            following = _OpenPiece(text, frame, start, frame.prefix, full)
            if has_lines or end <= following.limit:
                done += piece.closed(filled)
                piece = following
        position = start
        while end > piece.limit:
            if is_table:
                cut, _ = best_cut(text, position, piece.limit, position)
                prefix = _row_prefix(text, start, cut, frame, full)
                position = skip_space(text, cut, end)
            else:
                cut = position = grapheme_cut(text, piece.limit, position)
                prefix = frame.prefix
            done += piece.closed(cut)
            piece = _OpenPiece(text, frame, position, prefix, full)
        filled = end
    done += piece.closed(filled)
    done[-1] = replace(done[-1], end=block.end)  # the closing fence line
    return done


class _OpenPiece:
    """A piece from ``start`` that may reach to ``limit``."""

    def __init__(self, text: str, frame: Frame, start: int, prefix: str, budget: Budget) -> None:
        self._text = text
        self._start = start
        self._prefix = prefix
        self._suffix = frame.suffix
        self.limit = budget.minus(prefix + frame.suffix).reach(text, start, frame.body_end)

    def closed(self, end: int) -> list[Piece]:
        """The piece up to ``end``; none where that is only white space."""
        body = self._text[self._start : end]
        if not body.strip():
            return []
        return [Piece(self._prefix + body + self._suffix, self._start, end)]


def _row_prefix(text: str, row_start: int, cut: int, frame: Frame, full: Budget) -> str:
    """What the rest of a row that was cut repeats: the header, and its first cell if it fits."""
    cell = _FIRST_CELL.match(text, row_start, min(cut, row_start + full.chars // 2))
    if cell is None:
        return frame.prefix
    prefix = f"{frame.prefix}{cell[0]} "
    return prefix if full.part(2).holds(measure(prefix)) else frame.prefix


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of each line, without trailing white space."""
    while start < end:
        newline = text.find("\n", start, end)
        line_end = end if newline < 0 else newline
        yield start, start + len(text[start:line_end].rstrip())
        start = line_end + 1
