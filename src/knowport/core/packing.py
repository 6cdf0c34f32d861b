"""Fit evidence into a budget of characters (Unicode code points).

Everything that a reader gets is counted: for each piece its header line and its separator as
``render`` writes them, and the mark of a cut. Whole chunks come first, in their order; then the
best-ranked chunk of those that did not fit is cut at a sentence end into what is left, if that is
worth reading. An id is never cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from knowport.core.text import grapheme_cut
from knowport.model import Drop, DropReason, EvidenceBlock, PackedEvidence

CUT_MARK = " […]"
SEPARATOR = "\n\n"
MIN_EXCERPT = 80
_SENTENCE_END = regex.compile(r"[。！？；…]+[”’」』）)]*|[.!?]+(?=\s)|(?=\n)")


@dataclass(frozen=True, slots=True)
class Packing:
    """Evidence that fits, in order, and what had no room."""

    evidence: tuple[PackedEvidence, ...]
    drops: tuple[Drop, ...]


def pack(blocks: Sequence[EvidenceBlock], *, max_chars: int) -> Packing:
    """Pack blocks into at most ``max_chars`` characters of ``render``.

    Keys must be distinct. Raises ValueError for ``max_chars`` below 1.
    """
    if max_chars < 1:
        raise ValueError(f"max_chars must be at least 1, not {max_chars}")
    room = max_chars
    packed: dict[str, PackedEvidence] = {}
    for block in blocks:
        cost = _cost(block, block.candidate.hit.content)
        if cost <= room:
            packed[block.candidate.key] = PackedEvidence(
                block, block.candidate.hit.content, truncated=False
            )
            room -= cost
    left_out = [block for block in blocks if block.candidate.key not in packed]
    for block in left_out:
        limit = room - _cost(block, CUT_MARK)
        if limit >= MIN_EXCERPT:
            excerpt = cut_at_sentence(block.candidate.hit.content, limit) + CUT_MARK
            packed[block.candidate.key] = PackedEvidence(block, excerpt, truncated=True)
            left_out.remove(block)
            break
    return Packing(
        tuple(packed[b.candidate.key] for b in blocks if b.candidate.key in packed),
        tuple(Drop(b.candidate.key, b.candidate.rank, DropReason.OUT_OF_BUDGET) for b in left_out),
    )


def header(block: EvidenceBlock) -> str:
    """The line above an excerpt: evidence key, heading path, source."""
    hit = block.candidate.hit
    return f"[{block.candidate.key}] {hit.breadcrumb or hit.title} ({hit.source})"


def render(evidence: Sequence[PackedEvidence]) -> str:
    """Evidence as plain text, in the form that the budget counts."""
    return "".join(f"{header(item.block)}\n{item.excerpt}{SEPARATOR}" for item in evidence)


def _cost(block: EvidenceBlock, excerpt: str) -> int:
    return len(header(block)) + 1 + len(excerpt) + len(SEPARATOR)


def cut_at_sentence(text: str, limit: int) -> str:
    """The longest prefix of whole sentences within ``limit`` characters.

    Falls back to the last white space and then to a grapheme border where sentences are so long
    that more than half of the room would be lost.
    """
    window = text[: limit + 1]  # the character past the limit may show that an end is right at it
    ends = [match.end() for match in _SENTENCE_END.finditer(window)]
    last = max((end for end in ends if end <= limit), default=0)
    least = max(1, limit // 2)
    if last < least:
        last = window.rfind(" ")
    if last < least:
        last = grapheme_cut(text, limit)
    return text[:last].rstrip()
