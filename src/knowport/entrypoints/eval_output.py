"""What ``knowport eval`` and ``knowport calibrate`` say on a terminal, and how they are stopped."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table
from rich.text import Text

from knowport.core.wording import counted
from knowport.entrypoints.options import err
from knowport.errors import InvalidInput
from knowport.evaluation import tables
from knowport.model import IngestProgress

MIN_WIDTH = 160
SEED = 20_240_601


def print_tables(facts: Sequence[tuple[str, str]], shown: Sequence[tables.Table]) -> None:
    out = Console(highlight=False, width=None if sys.stdout.isatty() else MIN_WIDTH)
    for name, value in facts:
        out.print(Text.assemble((f"{name:<14}", "bold"), value), soft_wrap=True)
    for title, head, rows in shown:
        table = Table(box=None, pad_edge=False, title=title, title_justify="left")
        for at, name in enumerate(head):
            table.add_column(Text(name), overflow="fold", no_wrap=at == 0)
        for row in rows:
            table.add_row(*map(Text, row))
        out.print()
        out.print(table)


class StopOnInterrupt:
    """The first Ctrl-C stops after the document or query at hand, the second at once."""

    def __init__(self) -> None:
        self._asked = False

    def asked(self) -> bool:
        return self._asked

    def __enter__(self) -> StopOnInterrupt:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        err.print("Stopping. Ctrl-C again to stop at once.")


class Progress:
    """At most a line every five seconds, on standard error."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock, self._next = name, clock, 0.0

    def ingest(self, now: IngestProgress) -> None:
        chunks = counted(now.chunks_done, "chunk")
        self._say(f"ingest {now.files_done}/{counted(now.files_total, 'document')}, {chunks}")

    def queries(self, done: int, total: int) -> None:
        self._say(f"queries {done}/{total}", last=done == total)

    def _say(self, text: str, *, last: bool = False) -> None:
        if last or self._clock() >= self._next:
            self._next = self._clock() + 5.0
            err.print(f"{self._name}: {text}", style="dim", markup=False)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write a report into a folder, made if need be; raises InvalidInput."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {folder}: {error}.",
            field="report",
            remedy="Name another folder.",
        ) from error
    page = next(name for name in files if name.endswith(".html"))
    err.print(f"Report: {folder / page}", markup=False)
