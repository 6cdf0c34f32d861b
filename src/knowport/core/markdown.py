"""Reads the structure of a Markdown text: sections and blocks.

All spans are code-point offsets into the whole text that was passed, front matter included.
The text is expected to be normalised (LF line ends).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import regex
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block import table as recognise_table
from markdown_it.token import Token

from knowport.core.text import grapheme_cut

MAX_HEADING = 200
"""Most characters of a heading in a breadcrumb: a setext heading may be a whole paragraph."""

WINDOW = 1_000_000
"""Characters that are parsed at once: the parser takes six times the memory of its text."""

_COMMENTS = regex.compile(r"(?:<!--(?:[^-]|-(?!->))*+-->|\s)*+")
_ONLY_MARKUP = regex.compile(r"[\s>*+#-]*+")


class BlockKind(StrEnum):
    HEADING = "heading"
    FENCE = "fence"
    TABLE = "table"
    PROSE = "prose"  # paragraphs, lists, quotes, indented code, HTML, link definitions
    BLANK = "blank"  # nothing for a reader: rules, comments, empty headings and items


@dataclass(frozen=True, slots=True)
class Block:
    """One top-level block; ``start`` is at the start of a line, ``end`` after its last text."""

    kind: BlockKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """A top-level heading and the blocks up to the next one.

    ``breadcrumb`` is the path of heading texts from the top, without markup. ``level`` is 1..6,
    or 0 for what stands before the first heading. Lines count from 0; ends are exclusive.
    """

    breadcrumb: tuple[str, ...]
    level: int
    first_line: int
    end_line: int
    start: int
    end: int
    blocks: tuple[Block, ...]


def parse_markdown(text: str, start: int = 0, *, window: int = WINDOW) -> list[Section]:
    """Sections of ``text[start:]`` in order; ``start`` is at the start of a line.

    Only top-level headings open a section: one in a quote or a list item is text. Every line that
    is not blank belongs to exactly one block. ``window`` has no influence on that; the text of a
    heading uses link definitions up to about so many characters after it.
    """
    starts = [start]
    starts.extend(newline.end() for newline in regex.finditer("\n", text, pos=start))
    starts.append(len(text) + 1)
    lines_before = text.count("\n", 0, start)

    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    blocks: list[Block] = []
    level, first_line = 0, 0

    def close(end_line: int) -> None:
        if blocks:
            sections.append(
                Section(
                    breadcrumb=tuple(title for _, title in path),
                    level=level,
                    first_line=lines_before + first_line,
                    end_line=lines_before + end_line,
                    start=starts[first_line],
                    end=min(starts[end_line], len(text)),
                    blocks=tuple(blocks),
                )
            )

    for token, title, line, end_line in _top_level(text, starts, window):
        block = _block(token, title, text, starts[line], starts[end_line] - 1)
        if block is None:
            continue
        if token is not None and token.type == "heading_open":
            close(line)
            level, first_line = int(token.tag[1]), line
            while path and path[-1][0] >= level:
                path.pop()
            path.append((level, title))
            blocks = []
        blocks.append(block)
    close(len(starts) - 1)
    return sections


def _top_level(
    text: str, starts: Sequence[int], window: int
) -> Iterator[tuple[Token | None, str, int, int]]:
    """Top-level tokens with heading text and line range; None for lines that have no token.

    Of each window the last token is left to the next one, which begins with it: how far it goes,
    and whether it is one, may depend on what follows. Where a window holds no other, it grows.
    """
    begin, covered, line_count = 0, 0, len(starts) - 1
    size = window
    env: dict[str, object] = {}  # takes the link definitions, which headings may use
    while begin < line_count:
        stop = bisect_left(starts, starts[begin] + size, begin + 1, line_count)
        tokens = _BLOCKS.parse(text[starts[begin] : starts[stop]], env)
        found = [
            (token, begin + token.map[0], begin + token.map[1], position)
            for position, token in enumerate(tokens)
            if token.level == 0 and token.nesting >= 0 and token.map is not None
        ]
        following = line_count
        if stop < line_count:
            following = found.pop()[1] if found else begin
            if following == begin:
                size *= 2
                continue
        for token, line, end_line, position in found:
            if covered < line:  # link definitions give no token, but are text
                yield None, "", covered, line
            heading = token.type == "heading_open"
            title = _plain(tokens[position + 1].content, env) if heading else ""
            yield token, title, line, end_line
            covered = end_line
        begin, size = following, window
    if covered < line_count:
        yield None, "", covered, line_count


def _block(token: Token | None, title: str, text: str, start: int, end: int) -> Block | None:
    source = text[start:end].rstrip()
    indented = source.lstrip()
    if not indented:
        return None
    end = start + len(source)
    start += source.rfind("\n", 0, len(source) - len(indented)) + 1  # keep the indentation
    match token.type if token else None:
        case "heading_open":
            kind = BlockKind.HEADING if title else BlockKind.BLANK
        case "fence":
            kind = BlockKind.FENCE
        case "table":
            kind = BlockKind.TABLE
        case "hr":
            kind = BlockKind.BLANK
        case "html_block":
            kind = BlockKind.BLANK if _COMMENTS.fullmatch(indented) else BlockKind.PROSE
        case _:
            kind = BlockKind.BLANK if _ONLY_MARKUP.fullmatch(indented) else BlockKind.PROSE
    return Block(kind, start, end)


def _plain(source: str, env: dict[str, object]) -> str:
    """Text of a heading as a reader sees it, at most MAX_HEADING characters."""
    # The margin is for markup; the limit bounds the work of the inline parser.
    tokens = _INLINE.parseInline(source[: 4 * MAX_HEADING], env)
    text = " ".join("".join(_texts(tokens)).split())
    return text[: grapheme_cut(text, MAX_HEADING)]


def _texts(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.children is not None:  # the inline token itself, or an image's alternative
            yield from _texts(token.children)
        elif token.type != "html_inline":
            yield token.content


def _table(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """markdown-it's table rule with one token for a table.

    The original makes 14 tokens for a row of four cells, which is most of the time and memory
    that a long table takes. The rows end where the original ends them.
    """
    if not recognise_table(state, start_line, end_line, True):
        return False
    if silent:
        return True
    terminators = state.md.block.ruler.getRules("blockquote")
    outer, state.parentType = state.parentType, "table"
    line = start_line + 2
    while (
        line < end_line
        and not state.isEmpty(line)
        and state.sCount[line] >= state.blkIndent
        and not state.is_code_block(line)
        and not any(ends(state, line, end_line, True) for ends in terminators)
    ):
        line += 1
    state.parentType = outer
    token = state.push("table", "table", 0)
    token.map = [start_line, line]
    state.line = line
    return True


def _block_parser() -> MarkdownIt:
    # The preset's nesting limit of 20 swallows all that follows a list of ten levels.
    parser = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table")
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    # Line ends are normalised already, and the parser's own rule would count lines otherwise than
    # we do. Inline text is parsed for headings only.
    return parser.disable(["normalize", "inline", "text_join"])


_BLOCKS = _block_parser()
_INLINE = MarkdownIt("commonmark")
# Rule caches are filled at the first use, and not safely when two threads come first.
_BLOCKS.parse("-")
_INLINE.parse("-")
