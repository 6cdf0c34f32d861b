"""Markdown from values: tables, and lines that must stay text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_MARKUP = re.compile(r"#{1,6}(?:\s|$)|`{3}|~{3}|<!--|[-=*_]{3,}\s*$")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table, each with its line end. The header decides how wide it is; rows are not
    filled up, because one wide row over many narrow ones would make millions of empty cells."""
    yield _row(header)
    yield _row(["---"] * len(header))
    yield from map(_row, rows)


def cell(value: str) -> str:
    """A value as it may stand in a table: on one line, pipes escaped."""
    return " ".join(value.split()).replace("|", "\\|")


def as_text(line: str) -> str:
    """A line that is no heading, rule, fence or comment, whatever it begins with."""
    return f"\\{line}" if _MARKUP.match(line) else line


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
