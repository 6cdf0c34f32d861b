"""Cuts a document into chunks that follow its structure.

    sections   a chunk never spans two; a heading without text is carried into a deeper section
    blocks     packed in order up to the size; fences and tables whole where they fit (chunk_pack)
    pieces     a block that is too long is cut (chunk_split, chunk_frame)

The chunks together cover all text but white space; a chunk of only rules or comments is not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import regex

from knowport.core.chunk_pack import pack, says_little
from knowport.core.chunk_split import Budget
from knowport.core.front_matter import FrontMatter, split_front_matter
from knowport.core.markdown import MAX_HEADING, Block, BlockKind, Section, parse_markdown
from knowport.core.text import grapheme_cut
from knowport.errors import ConfigurationError
from knowport.model import Chunk, TextFormat

BREADCRUMB_SEPARATOR = " > "
# Kept with every generation: to be raised with any change in how chunks are cut.
CHUNKER_VERSION = 1

_MIN_BYTES = 64  # room for a few characters of text beside whatever a piece repeats
_PARAGRAPH = regex.compile(r"(?:^[^\n]*\S[^\n]*+\n?)++", regex.MULTILINE)
_RULE = regex.compile(r"[\s=*_-]*+")


@dataclass(frozen=True, slots=True)
class ChunkingOptions:
    """How large chunks are.

    ``size`` is the most characters (code points) of a chunk's content, 1 or more. ``overlap`` is
    the most characters that a piece of a long block of prose repeats of the piece before it,
    0 or more and below ``size``; a piece repeats at most half of the one before it. ``max_bytes``
    is the most UTF-8 bytes of a content, 64 or more. Raises ConfigurationError.
    """

    size: int = 600
    overlap: int = 0
    max_bytes: int = 60_000

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigurationError(
                f"chunking.size is {self.size}, but a chunk holds at least one character.",
                remedy="Set chunking.size to 1 or more.",
            )
        if not 0 <= self.overlap < self.size:
            raise ConfigurationError(
                f"chunking.overlap is {self.overlap} with chunking.size {self.size}.",
                remedy="Set chunking.overlap to 0 or more and below chunking.size.",
            )
        if self.max_bytes < _MIN_BYTES:
            raise ConfigurationError(
                f"max_bytes is {self.max_bytes}.",
                remedy=f"Set max_bytes to {_MIN_BYTES} or more.",
            )


def document_title(text: str, text_format: TextFormat, front_matter: FrontMatter) -> str | None:
    """Title of a document: the front matter's ``title``, else the first H1, else None.

    One line of at most MAX_HEADING characters. A plain text has no H1.
    """
    title = front_matter.values.get("title")
    if isinstance(title, str | int | float) and not isinstance(title, bool):
        line = title_line(str(title))
        if line:
            return line
    if text_format == "plain":
        return None
    sections = _markdown_sections(text, front_matter.body_start)
    titles = (section.breadcrumb[-1] for section in sections if section.level == 1)
    return next(filter(None, titles), None)


def title_line(title: str) -> str:
    """A title on one line of at most MAX_HEADING characters; '' where it is blank."""
    line = " ".join(title.split())
    return line[: grapheme_cut(line, MAX_HEADING)]


def chunk_document(
    doc_id: str, text: str, text_format: TextFormat, title: str, options: ChunkingOptions
) -> tuple[Chunk, ...]:
    """Chunks of a normalised text in order, ``chunk_index`` from 0; none where it has no text.

    Front matter of a Markdown text is not part of any chunk, but spans count from before it.
    """
    if text_format == "markdown":
        sections = _markdown_sections(text, split_front_matter(text).body_start)
    else:
        sections = _plain_sections(text)
    full = Budget(options.size, options.max_bytes)
    found = (
        (piece, BREADCRUMB_SEPARATOR.join(filter(None, section.breadcrumb)))
        for section, blocks in _with_carried_headings(sections)
        for piece in pack(text, blocks, full, options.overlap)
    )
    return tuple(
        Chunk(doc_id, index, piece.content, title, breadcrumb, piece.start, piece.end)
        for index, (piece, breadcrumb) in enumerate(found)
    )


# A document is asked for its title and then for its chunks: parsed once for both.
@lru_cache(maxsize=1)
def _markdown_sections(text: str, start: int) -> tuple[Section, ...]:
    return tuple(parse_markdown(text, start))


def forget_parsed() -> None:
    """Let go of the text that was parsed last, which is kept for when it is asked for again."""
    _markdown_sections.cache_clear()
    split_front_matter.cache_clear()


def _plain_sections(text: str) -> tuple[Section, ...]:
    """One section whose blocks are the paragraphs of a plain text."""
    blocks = []
    for paragraph in _PARAGRAPH.finditer(text):
        source = paragraph[0].rstrip()
        kind = BlockKind.BLANK if _RULE.fullmatch(source) else BlockKind.PROSE
        blocks.append(Block(kind, paragraph.start(), paragraph.start() + len(source)))
    return (Section((), 0, 0, text.count("\n") + 1, 0, len(text), tuple(blocks)),)


def _with_carried_headings(
    sections: Iterable[Section],
) -> Iterator[tuple[Section, tuple[Block, ...]]]:
    """Sections with their blocks; one without text gives its blocks to a deeper one after it."""
    carried: tuple[Block, ...] = ()
    previous: Section | None = None
    for section in sections:
        if carried and previous and section.level <= previous.level:
            yield previous, carried
            carried = ()
        blocks = carried + section.blocks
        if all(map(says_little, section.blocks)):
            carried = blocks
        else:
            yield section, blocks
            carried = ()
        previous = section
    if carried and previous:
        yield previous, carried
