"""``knowport eval`` and ``knowport calibrate``.

Progress and warnings go to standard error, the result alone to standard output. Exit codes beside
those of ``knowport.errors``: 12 a gate failed, 8 some queries or documents failed, 130 interrupted.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from knowport.entrypoints import wire
from knowport.errors import InvalidInput
from knowport.evaluation import reports, setups, summary, tables
from knowport.evaluation.datasets import Dataset, read_dataset
from knowport.evaluation.runs import SetRun, Setup, Stopped, run_set
from knowport.model import IngestProgress

EXIT_PARTIAL = 8
EXIT_GATE = 12
EXIT_INTERRUPTED = 130
SEED = 20_240_601
MIN_WIDTH = 160

app = typer.Typer(no_args_is_help=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of the index and the ledger.", show_default=False),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; else ./knowport.toml.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@app.command("eval")
def evaluate(
    set_folder: Annotated[
        Path | None, typer.Argument(metavar="SET", help="Folder of a labelled set.")
    ] = None,
    mode: Annotated[
        Literal["dense", "hybrid"] | None, typer.Option(help="Else retrieval.search.mode.")
    ] = None,
    ranker: Annotated[
        Literal["adaptive", "rrf", "weighted"] | None,
        typer.Option(help="Else retrieval.hybrid.ranker."),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B", help=f"Two setups: {', '.join(setups.NAMES)}, or TOML files of settings."
        ),
    ] = None,
    group_by: Annotated[
        str | None, typer.Option(help="Field of the queries, such as group.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many queries, spread over the file.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder of scratch indexes; else HOME/evaluation.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Folder for report.md, report.json and report.html.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of resampling.")] = SEED,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Measure retrieval on a labelled set, in a scratch index of its own.

    Example: knowport eval examples/ops-kb --compare dense hybrid --group-by group
    """
    if set_folder is None:
        raise InvalidInput("No set was named.", field="set", remedy="Name its folder.")
    overrides = _overrides(home, mode, ranker)
    chosen = (
        [setups.setup(name, overrides, config=config) for name in compare]
        if compare
        else [setups.configured(overrides, config=config)]
    )
    dataset = _limited(read_dataset(set_folder), limit, group_by)
    folder = work or chosen[0].settings.home / "evaluation"
    made = measure(dataset, chosen, folder, by=group_by, seed=seed)
    if report is not None:
        _write(report, made)
    _show(made, as_json=as_json)


def measure(
    dataset: Dataset, chosen: Sequence[Setup], work: Path, *, by: str | None, seed: int
) -> dict[str, Any]:
    """Run the setups and build the report; exits with 130 when interrupted."""
    with _StopOnInterrupt() as stop:
        runs = [_run(dataset, setup, work, stop) for setup in _distinct(chosen)]
    values = [summary.query_values(dataset, run.queries) for run in runs]
    return reports.build_report(
        dataset,
        runs,
        values,
        by=by,
        seed=seed,
        versions=setups.versions(),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _run(dataset: Dataset, setup: Setup, work: Path, stop: _StopOnInterrupt) -> SetRun:
    show = _Progress(setup.name)
    try:
        return run_set(
            dataset,
            setup,
            work,
            on_ingest=show.ingest,
            on_query=show.queries,
            should_stop=stop.asked,
        )
    except Stopped:
        err.print("Interrupted. What was embedded is kept; run the same command to go on.")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _distinct(chosen: Sequence[Setup]) -> list[Setup]:
    """The setups under distinct names."""
    names = [setup.name for setup in chosen]
    return [
        replace(setup, name=f"{setup.name} {'AB'[at]}") if names.count(setup.name) > 1 else setup
        for at, setup in enumerate(chosen)
    ]


def _limited(dataset: Dataset, limit: int | None, group_by: str | None) -> Dataset:
    if group_by is not None and not any(group_by in query.fields for query in dataset.queries):
        raise InvalidInput(
            f"No query of {dataset.name} has a field {group_by!r}.",
            field="group_by",
            remedy=f"Fields: {', '.join(sorted({f for q in dataset.queries for f in q.fields}))}.",
        )
    return dataset if limit is None else dataset.limited(limit)


def _overrides(home: Path | None, mode: str | None, ranker: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if home is not None:
        values["home"] = home
    if mode is not None:
        values = setups.merged(values, {"retrieval": {"search": {"mode": mode}}})
    if ranker is not None:
        values = setups.merged(values, {"retrieval": {"hybrid": {"ranker": ranker}}})
    return values


def _write(folder: Path, made: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in reports.files(made).items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {folder}: {error}.",
            field="report",
            remedy="Name another folder.",
        ) from error
    err.print(f"Report: {folder / 'report.html'}", markup=False)


def _show(made: dict[str, Any], *, as_json: bool) -> None:
    for text in tables.warnings(made):
        err.print(f"Warning: {text}", style="yellow", markup=False)
    if as_json:
        sys.stdout.write(wire.dumps(made) + "\n")
        return
    out = Console(highlight=False, width=None if sys.stdout.isatty() else MIN_WIDTH)
    for name, value in tables.facts(made):
        out.print(Text.assemble((f"{name:<14}", "bold"), value))
    for title, head, rows in tables.tables(made):
        shown = Table(box=None, pad_edge=False, title=title, title_justify="left")
        for at, name in enumerate(head):
            shown.add_column(Text(name), overflow="fold", no_wrap=at == 0)
        for row in rows:
            shown.add_row(*map(Text, row))
        out.print()
        out.print(shown)


class _StopOnInterrupt:
    """The first Ctrl-C stops after the document or query at hand, the second at once."""

    def __init__(self) -> None:
        self._asked = False

    def asked(self) -> bool:
        return self._asked

    def __enter__(self) -> _StopOnInterrupt:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        err.print("Stopping. Ctrl-C again to stop at once.")


class _Progress:
    """At most a line every five seconds, on standard error."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock, self._next = name, clock, 0.0

    def ingest(self, now: IngestProgress) -> None:
        self._say(f"ingest {now.files_done}/{now.files_total} documents, {now.chunks_done} chunks")

    def queries(self, done: int, total: int) -> None:
        self._say(f"queries {done}/{total}", last=done == total)

    def _say(self, text: str, *, last: bool = False) -> None:
        if last or self._clock() >= self._next:
            self._next = self._clock() + 5.0
            err.print(f"{self._name}: {text}", style="dim", markup=False)
