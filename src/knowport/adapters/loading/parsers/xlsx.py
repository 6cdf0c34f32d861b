"""Workbooks: a heading and tables for each sheet."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed
from knowport.adapters.loading.parsers.archive import broken, packed
from knowport.adapters.loading.parsers.markdown import check_length
from knowport.adapters.loading.parsers.tables import as_text, cell, markdown_table

Row = list[str]


def parse_parts(parts: dict[str, bytes], title: str, limits: LoadLimits) -> Parsed:
    """The parts of a workbook as Markdown; hidden sheets are left out and counted."""
    try:
        workbook = CalamineWorkbook.from_filelike(packed(parts))
        sheets = workbook.sheets_metadata
    except CalamineError as error:
        raise broken(f"The workbook cannot be opened: {error}.") from error
    pieces: list[str] = []
    length = removed = 0
    for number, sheet in enumerate(sheets):
        visible = sheet.visible == SheetVisibleEnum.Visible
        for piece in _sheet(workbook, number, sheet.name):
            if visible:
                pieces.append(piece)
            else:
                removed += len(piece)
            length += len(piece)  # a few cells can stand for a text of any length
            check_length(length, limits)
    return Parsed(
        "".join(pieces), "xlsx", title=title, removed=removed, metadata={"sheets": len(sheets)}
    )


def _sheet(workbook: CalamineWorkbook, number: int, name: str) -> Iterator[str]:
    values = workbook.get_sheet_by_index(number).to_python(skip_empty_area=True)
    rows = [[_value(value) for value in row] for row in values]
    yield f"## {' '.join(name.split())}\n\n"
    for block in _blocks(rows):
        yield from _table(block)


def _blocks(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows that stand together. After a blank row a new table begins where the next row looks like
    a header: words alone, and not in the columns of the header before."""
    block: list[Row] = []
    blank = False
    for row in rows:
        if blank and block and any(row) and _is_header(row, block[0]):
            yield block
            block = []
        blank = not any(row)
        if not blank:
            block.append(row)
    if block:
        yield block


def _is_header(row: Row, other: Row) -> bool:
    words = not any(_is_number(value) for value in row)
    return words and list(map(bool, row)) != list(map(bool, other))


def _table(block: list[Row]) -> Iterator[str]:
    """A table. Rows of a single cell above its header are its title, and a lone cell is text."""
    used = [column for column in range(len(block[0])) if any(row[column] for row in block)]
    rows = [[row[column] for column in used] for row in block]
    while rows and sum(map(bool, rows[0])) == 1 and (len(used) > 1 or len(rows) == 1):
        yield f"{as_text(''.join(rows.pop(0)))}\n\n"
    if rows:
        yield from markdown_table(rows[0], rows[1:])
        yield "\n"


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).upper()
        case float() if value.is_integer():
            return str(int(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(" ")
        case _:
            return cell(str(value))


def _is_number(value: str) -> bool:
    return value.replace(".", "", 1).removeprefix("-").isdecimal()
