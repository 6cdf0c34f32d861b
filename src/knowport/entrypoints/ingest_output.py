"""What an ingest shows while it runs, and how it is asked to stop."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Self

from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from knowport.core.wording import counted
from knowport.entrypoints.options import err, out
from knowport.errors import KnowportError
from knowport.model import FileOutcome, FileResult, IngestProgress, IngestReport

_STOPPING = (signal.SIGINT, signal.SIGTERM)


class StopOnInterrupt:
    """The first Ctrl-C, or SIGTERM, asks the work to stop where nothing is half done; the second
    stops it."""

    ASKED = "Stopping after the batch at hand. Ctrl-C again to stop at once."
    LEFT = "Interrupted. What was half done is finished at the next start."

    def __init__(self) -> None:
        self._asked = False

    def asked(self) -> bool:
        return self._asked

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._ask) for number in _STOPPING}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is KeyboardInterrupt:
            err.print(self.LEFT)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        err.print(self.ASKED)


@contextmanager
def ingest_progress(*, quiet: bool) -> Iterator[Callable[[IngestProgress], None]]:
    """A bar on a terminal; a line every tenth of the way elsewhere; nothing with --json."""
    if quiet:
        yield lambda _: None
        return
    if not err.is_terminal:
        yield _progress_lines()
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
    with bar:
        task = bar.add_task("Ingesting", total=None, rate="")

        def show(now: IngestProgress) -> None:
            bar.update(
                task,
                completed=now.bytes_done,
                total=max(now.bytes_total, 1),
                description=f"{now.files_done}/{now.files_total} {_name(now)}",
                rate=_rate(now, bar.tasks[0].elapsed or 0.0),
            )

        yield show


def _progress_lines() -> Callable[[IngestProgress], None]:
    shown, began = -1, time.monotonic()

    def show(now: IngestProgress) -> None:
        nonlocal shown
        tenth = 10 * now.bytes_done // max(now.bytes_total, 1)
        if tenth <= shown:
            return
        shown, elapsed = tenth, time.monotonic() - began
        said = [
            f"{now.files_done}/{counted(now.files_total, 'file')}",
            counted(now.chunks_done, "chunk"),
        ]
        rate = _rate(now, elapsed)
        if rate and tenth:
            left = elapsed * (now.bytes_total - now.bytes_done) / now.bytes_done
            said += [rate, f"{left:.0f} s left"]
        err.print(f"{tenth * 10:3d} %  {', '.join(said)}  {_name(now)}", markup=False)

    return show


def _name(now: IngestProgress) -> str:
    return Path(now.path).name[:40]


def _rate(now: IngestProgress, elapsed: float) -> str:
    return f"{now.chunks_done / elapsed:.1f} chunks/s" if elapsed > 0.5 else ""


# -- reports --------------------------------------------------------------------------------------

# Files of one outcome that are listed; the report file and --json have all of them.
_LISTED = 50


def print_report(done: IngestReport, *, dry_run: bool = False) -> None:
    """The files that are not in the index as they are, each with its reason, then the sum.

    A dry run lists what would be indexed and deleted as well.
    """
    listed = [FileOutcome.SKIPPED, FileOutcome.FAILED, FileOutcome.DELETED]
    if dry_run:
        listed.append(FileOutcome.INDEXED)
    table = Table(box=None, pad_edge=False)
    for name in ("outcome", "file", "reason"):
        table.add_column(name, overflow="fold")
    for outcome in listed:
        files = [result for result in done.files if result.outcome is outcome]
        for result in files[:_LISTED]:
            table.add_row(Text(outcome, _STYLE[outcome]), Text(result.path), Text(_why(result)))
        if len(files) > _LISTED:
            table.add_row(Text(outcome, _STYLE[outcome]), f"and {len(files) - _LISTED} more", "")
    if table.row_count:
        out.print(table)
    counts = ", ".join(f"{done.count(outcome)} {outcome}" for outcome in FileOutcome)
    if dry_run:
        out.print(f"It would be: {counts}. Nothing was written.", markup=False)
    else:
        out.print(
            f"{counts}. {counted(done.chunks_written, 'chunk')} written, "
            f"{done.chunks_embedded} embedded, "
            f"{done.seconds:.1f} s.",
            markup=False,
        )
    _print_notes(done)


def _print_notes(done: IngestReport) -> None:
    moved = sum(result.reason == "category" for result in done.files)
    if moved:
        said = f"Of another category than before: {counted(moved, 'document')}."
        out.print(said, markup=False)
    if done.vanished:
        shown = ", ".join(done.vanished[:5]) + (" ..." if len(done.vanished) > 5 else "")
        refused = any(result.reason == "not_deleted" for result in done.files)
        way = "" if refused else " --delete-missing deletes them."
        out.print(
            f"Without a file in the folder, and still in the index: "
            f"{counted(len(done.vanished), 'document')}: {shown}.{way}",
            markup=False,
        )
    if done.interrupted:
        out.print("Interrupted: run the same command to go on.")


def _why(result: FileResult) -> str:
    return f"{result.reason}: {result.detail}" if result.detail else result.reason


_STYLE = {
    FileOutcome.INDEXED: "green",
    FileOutcome.SKIPPED: "dim",
    FileOutcome.FAILED: "red",
    FileOutcome.DELETED: "yellow",
}


def print_passing_error(error: KnowportError) -> None:
    """A failure of a watch that goes on."""
    err.print(f"{error} It is tried again.", style="yellow", markup=False)
