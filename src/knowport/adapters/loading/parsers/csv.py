"""Comma-separated values as one Markdown table."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import islice

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.markdown import check_length
from knowport.adapters.loading.parsers.tables import cell, markdown_table

_DELIMITERS = ",\t;|"
_SAMPLE_ROWS = 50


def parse(data: bytes, limits: LoadLimits) -> Parsed:
    """A table whose header is the first row that is not blank. ``data`` is UTF-8 with LF line
    ends."""
    csv.field_size_limit(max(len(data), 1))
    lines = [f"{line}\n" for line in data.decode().split("\n")]
    declared = ""
    if lines[0].lower().startswith("sep="):  # Excel writes it
        declared = lines.pop(0)[4:5]
    delimiter = declared.strip("\n") or _delimiter(lines)
    width = max((len(row) for row in csv.reader(lines, delimiter=delimiter)), default=0)
    rows = (
        [cell(value) for value in row]
        for row in csv.reader(lines, delimiter=delimiter)
        if any(value.strip() for value in row)
    )
    header = next(rows, [])
    text = "".join(markdown_table(header + [""] * (width - len(header)), rows)) if header else ""
    check_length(len(text), limits)
    return Parsed(text, "csv")


def _delimiter(lines: list[str]) -> str:
    """The one that cuts most of the first rows into the same number of cells, more than one."""

    def agreement(delimiter: str) -> tuple[int, int]:
        rows = islice(csv.reader(lines, delimiter=delimiter), _SAMPLE_ROWS)
        widths = Counter(len(row) for row in rows if len(row) > 1)
        width, count = max(widths.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
        return count, width

    return max(_DELIMITERS, key=agreement)
