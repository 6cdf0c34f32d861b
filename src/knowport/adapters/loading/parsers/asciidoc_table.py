"""Tables of AsciiDoc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from knowport.adapters.loading.parsers.tables import cell, markdown_table

# A cell begins with a bar, which may have a specifier before it: '2+|', '.2+^|', 'a|', 'h|'.
_CELL = re.compile(r"(?:(?<=\s)|^)(?:\d+\*|\d*(?:\.\d+)?\+)?[<^>.]*[aehlmsv]?(?<!\\)\|")
_COLUMNS = re.compile(r"""cols\s*=\s*(?:"([^"]*)"|'([^']*)'|([^,\]]*))""")
_REPEATED = re.compile(r"\s*(\d+)\*")


def table(lines: Iterable[str], attributes: str) -> Iterator[str]:
    """Lines of a Markdown table. Its width is what ``cols`` says, else that of its first row."""
    cells: list[str] = []
    width = _declared_width(attributes)
    for line in lines:
        first, *starts = _CELL.split(line)
        if cells and first.strip():
            cells[-1] += f" {first}"
        cells += starts
        width = width or len(starts)
    rows = [
        [cell(text.replace("\\|", "|")) for text in cells[at : at + width]]
        for at in range(0, len(cells), width or 1)
    ]
    if rows:
        yield from (row.rstrip("\n") for row in markdown_table(rows[0], rows[1:]))
        yield ""


def _declared_width(attributes: str) -> int:
    match = _COLUMNS.search(attributes)
    if match is None:
        return 0
    columns = (match[1] or match[2] or match[3] or "").split(",")
    return sum(int(m[1]) if (m := _REPEATED.match(column)) else 1 for column in columns)
