"""What a rebuild shows while it runs, and what it says of itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from knowport.core.wording import counted
from knowport.entrypoints.options import err
from knowport.pipelines.rebuild_ports import (
    OnProgress,
    RebuildProgress,
    RebuildStatus,
    RunReport,
    VerifyReport,
)

Values: TypeAlias = Mapping[str, Any]

_LINE_SECONDS = 5.0  # between lines of progress where there is no terminal
_SAID_SECONDS = 1.0  # a rate is not said before


@contextmanager
def rebuild_progress(*, quiet: bool) -> Iterator[OnProgress]:
    """A bar with rate and time left on a terminal; elsewhere a line now and then; nothing with
    --json."""
    if quiet:
        yield lambda _: None
        return
    if not err.is_terminal:
        yield _lines()
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
    pace = _Pace()
    with bar:
        task = bar.add_task("build", total=None, rate="")

        def show(now: RebuildProgress) -> None:
            if pace.is_new(now):
                bar.reset(task, description=now.step)
            bar.update(
                task,
                completed=now.done,
                total=now.total or None,
                description=_what(now),
                rate=pace.rate(now),
            )

        yield show


class _Pace:
    """How fast the step at hand is."""

    def __init__(self) -> None:
        self._step, self._began = "", 0.0

    def is_new(self, now: RebuildProgress) -> bool:
        if now.step == self._step:
            return False
        self._step, self._began = now.step, time.monotonic()
        return True

    def rate(self, now: RebuildProgress) -> str:
        seconds = time.monotonic() - self._began
        return f"{now.done / seconds:.0f}/s" if seconds > _SAID_SECONDS else ""

    def left(self, now: RebuildProgress) -> str:
        seconds = time.monotonic() - self._began
        if seconds <= _SAID_SECONDS or not 0 < now.done <= now.total:
            return ""
        return f"about {seconds * (now.total - now.done) / now.done:.0f} s left"


def _what(now: RebuildProgress) -> str:
    if now.step != "build":
        return now.step
    return f"build, vectors: {now.hits} from the cache, {now.misses} made"


def _lines() -> OnProgress:
    said = time.monotonic()
    pace = _Pace()

    def show(now: RebuildProgress) -> None:
        nonlocal said
        pace.is_new(now)
        if now.total and time.monotonic() - said > _LINE_SECONDS:
            said = time.monotonic()
            place = f"{now.done} of {now.total}"
            said_of_it = filter(None, [place, pace.rate(now), pace.left(now)])
            err.print(f"{_what(now)}: {', '.join(said_of_it)}", markup=False)

    return show


def as_progress(values: Values) -> RebuildProgress:
    """The progress that a job tells, of which a later version may tell more."""
    return RebuildProgress(**{part.name: values[part.name] for part in fields(RebuildProgress)})


# -- results, as the JSON values that a service sends and --json prints -------------------------


def build_text(built: Values) -> str:
    stopped = (
        " Stopped before it was whole; `knowport rebuild run` goes on." if built["stopped"] else ""
    )
    removed = f", {built['removed']} removed" if built["removed"] else ""
    return (
        f"Generation {built['generation']}: {counted(built['documents'], 'document')}, "
        f"{counted(built['chunks'], 'chunk')} written{removed} in {built['seconds']:.1f} s; "
        f"vectors: {built['hits']} from the cache, {built['misses']} made.{stopped}"
    )


def verify_text(verified: Values) -> str:
    figures = verified["report"]
    said = [
        f"{'Verified' if verified['passed'] else 'NOT verified'}: "
        f"{counted(figures['documents'], 'document')}, {counted(figures['chunks'], 'chunk')} "
        f"compared, {figures['searched_for']} searched for, "
        f"{counted(figures['findings'], 'finding')}."
    ]
    if "judge" in figures and figures["judge"].get("comparison"):
        judged = figures["judge"]
        compared, medians = judged["comparison"], judged["median_ms"]
        said.append(
            f"{judged['measure']} over {compared['queries']} labelled queries: "
            f"{compared['mean_a']:.3f} before, {compared['mean_b']:.3f} now (p = "
            f"{compared['p_value']:.3g}); median {medians['active']:.1f} ms before, "
            f"{medians['new']:.1f} ms now; {judged['left_out']} queries left out."
        )
    said += [f"Against it: {failure}." for failure in verified["failures"]]
    return "\n".join(said)


def switch_text(switched: Values) -> str:
    forced = ", although it is not verified (--force)" if switched["forced"] else ""
    text = (
        f"Switched from {switched['previous']} to {switched['generation']}{forced}; "
        f"{counted(switched['caught_up'], 'document')} caught up, writers waited "
        f"{1000 * switched['blocked']:.0f} ms. `knowport rebuild rollback` goes back."
    )
    return f"{text}\nWarning: {switched['warning']}" if switched["warning"] else text


def run_text(done: Values) -> str:
    parts = [build_text(done["build"])]
    if done["verify"] is not None:
        parts.append(verify_text(done["verify"]))
    if done["switch"] is not None:
        parts.append(switch_text(done["switch"]))
    elif done["verify"] is not None:
        parts.append("Stopped before the switch; `knowport rebuild run` goes on.")
    return "\n".join(parts)


def run_json(report: RunReport) -> dict[str, Any]:
    return {
        "build": asdict(report.build),
        "verify": None if report.verify is None else verify_json(report.verify),
        "switch": None if report.switch is None else asdict(report.switch),
    }


def verify_json(report: VerifyReport) -> dict[str, Any]:
    return {
        "generation": report.generation,
        "passed": report.passed,
        "failures": list(report.failures),
        "report": dict(report.report),
    }


def status_json(status: RebuildStatus) -> dict[str, Any]:
    return {
        "generations": [
            {
                **asdict(row.generation),
                "documents_present": row.present,
                "documents_known": row.documents,
                "collection_lost": row.lost,
            }
            for row in status.generations
        ],
        "differs": list(status.differs),
        "unknown_collections": list(status.unknown),
        "next_step": status.next_step,
    }


def print_status(out: Console, status: Values) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("generation", "state", "documents", "chunks of", "embedder", "since", "remarks"):
        table.add_column(name, overflow="fold")
    for row in status["generations"]:
        table.add_row(
            row["name"],
            row["state"],
            f"{row['documents_present']}/{row['documents_known']}",
            str(row["chunking"].get("size", "?")),
            f"{row['embedder']['provider']} {row['embedder']['model']}",
            row["activated_at"] or row["created_at"],
            _remarks(row),
        )
    if status["generations"]:
        out.print(table)
    for text in status["differs"]:
        out.print(f"Not as the settings say: {text}.", markup=False)
    for name in status["unknown_collections"]:
        out.print(
            f"Collection {name} is none of this ledger. If it is no other knowledge base's, "
            f"`knowport rebuild drop {name}` drops it.",
            markup=False,
        )
    if status["next_step"]:
        out.print(status["next_step"], markup=False)


def _remarks(row: Values) -> str:
    said = []
    if row["collection_lost"]:
        said.append("its collection is gone")
    if row["forced"]:
        said.append("activated by force")
    if row["report"] and not row["report"].get("passed", True):
        said.append("; ".join(row["report"]["failures"]))
    return ", ".join(said)
