"""``knowport eval`` and ``knowport calibrate``.

Progress and warnings go to standard error, the result alone to standard output. Exit codes beside
those of ``knowport.errors``: 8 some queries failed or lost a leg, or documents were not indexed; 12
a gate failed; 13 calibration was refused; 130 interrupted.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from knowport.entrypoints import wire
from knowport.errors import InvalidInput
from knowport.evaluation import fitting, gates, reports, setups, tables
from knowport.evaluation.calibration import REFUSE_BELOW, calibrate, store
from knowport.evaluation.datasets import Dataset, read_dataset
from knowport.evaluation.harness import evaluate
from knowport.evaluation.labelled import collect, read_labelled
from knowport.evaluation.named import check_names
from knowport.evaluation.runs import Setup, Stopped
from knowport.knowledge_base import KnowledgeBase
from knowport.model import IngestProgress
from knowport.settings import load_settings

EXIT_PARTIAL = 8
EXIT_GATE = 12
EXIT_REFUSED = 13
EXIT_INTERRUPTED = 130
SEED = 20_240_601
MIN_WIDTH = 160

app = typer.Typer()
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
def eval_command(
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
    measure: Annotated[
        list[str] | None,
        typer.Option(help="One more measure by its ir-measures name, such as R@20 or AP@10."),
    ] = None,
    gate: Annotated[
        Path | None, typer.Option(help="A gate file; it names set, settings and seed itself.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of resampling.")] = SEED,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Measure retrieval on a labelled set, in a scratch index of its own.

    Exit code 12: a gate failed. 8: some queries or documents could not be used.

    Example: knowport eval examples/ops-kb --compare dense hybrid --group-by group
    """
    overrides = _overrides(home, mode, ranker)
    if gate is not None:
        given = {
            "SET": set_folder,
            "--mode": mode,
            "--ranker": ranker,
            "--compare": compare,
            "--group-by": group_by,
            "--limit": limit,
            "--measure": measure,
        }
        if clash := [name for name, value in given.items() if value]:
            raise InvalidInput(
                f"A gate file says itself what is run; leave out {', '.join(clash)}.", field="gate"
            )
        _gate(gate, overrides, config, work, report, as_json=as_json)
        return
    if set_folder is None:
        raise InvalidInput("No set was named.", field="set", remedy="Name its folder.")
    if compare and mode:
        raise InvalidInput("--compare names the modes; leave out --mode.", field="mode")
    check_names(measure or ())
    chosen = (
        [setups.setup(name, overrides, config=config) for name in compare]
        if compare
        else [setups.configured(overrides, config=config)]
    )
    dataset = _limited(read_dataset(set_folder), limit, group_by)
    folder = work or chosen[0].settings.home / "evaluation"
    made = _measured(dataset, chosen, folder, group_by, seed, measure or ())
    if report is not None:
        _write(report, made)
    _show(made, as_json=as_json)
    if tables.warnings(made):
        raise typer.Exit(EXIT_PARTIAL)


@app.command("calibrate")
def calibrate_command(
    queries: Annotated[Path, typer.Option(help="Labelled questions, JSON Lines.")],
    refuse_below: Annotated[
        float, typer.Option(help="Refuse where evidence is right less likely than this.")
    ] = REFUSE_BELOW,
    keep_weight: Annotated[
        bool, typer.Option("--keep-weight", help="Do not fit the weight of lexical evidence.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report, but store nothing.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of folds and resampling.")] = SEED,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Fit the relevance levels to labelled questions about this knowledge base.

    A line holds text and documents (ids that answer it; an empty list: no answer). 15 questions
    are the least, with 5 that are answered rightly and 5 that are not. Exit code 13: refused, the
    reason is printed, and nothing is stored.

    Example: knowport calibrate --queries labelled.jsonl
    """
    if not 0 < refuse_below < fitting.MEDIUM_AT:
        raise InvalidInput(
            f"--refuse-below is {refuse_below}; it must lie between 0 and {fitting.MEDIUM_AT}.",
            field="refuse_below",
        )
    labelled = read_labelled(queries)
    settings = load_settings({"home": home} if home is not None else {}, config=config)
    with _StopOnInterrupt() as stop, KnowledgeBase(settings=settings) as kb:
        if not kb.documents():
            raise InvalidInput(
                "The knowledge base holds no document.", field="home", remedy="Ingest some first."
            )
        show = _Progress("calibrate")
        try:
            collected = collect(kb, labelled, on_query=show.queries, should_stop=stop.asked)
        except Stopped:
            raise typer.Exit(EXIT_INTERRUPTED) from None
        outcome = calibrate(
            collected.samples,
            kb.thresholds,
            refuse_below=refuse_below,
            keep_weight=keep_weight,
            seed=seed,
        )
        stored = None
        if outcome.thresholds is not None and not dry_run:
            stored = store(
                settings.home,
                outcome.thresholds,
                settings.retrieval.kb_scope,
                kb.fingerprint(),
                outcome.report,
            )
    values = {
        "calibrated": outcome.thresholds is not None,
        "refusal": outcome.refusal,
        "stored": str(stored) if stored else None,
        "left_out": dict(collected.left_out),
        **outcome.report,
    }
    if as_json:
        sys.stdout.write(wire.dumps(values) + "\n")
    else:
        _print_tables(*tables.calibration_tables(values))
    if outcome.refusal:
        err.print(f"Not calibrated. {outcome.refusal}", style="yellow", markup=False)
        raise typer.Exit(EXIT_REFUSED)


def _gate(
    path: Path,
    overrides: dict[str, Any],
    config: Path | None,
    work: Path | None,
    report: Path | None,
    *,
    as_json: bool,
) -> None:
    home = load_settings(overrides, config=config).home
    gate = gates.read_gate(path, home)
    check_names(gate.more)
    dataset = _limited(read_dataset(gate.set_folder), None, gate.group_by)
    made = _measured(
        dataset, [gate.setup], work or home / "evaluation", gate.group_by, gate.seed, gate.more
    )
    if report is not None:
        _write(report, made)
    verdicts = gates.judge(gate, made)
    passed, raised = gates.passed(verdicts), gates.raised(gate, verdicts)
    for text in tables.warnings(made):
        err.print(f"Warning: {text}", style="yellow", markup=False)
    if as_json:
        rows = [asdict(verdict) for verdict in verdicts]
        sys.stdout.write(
            wire.dumps({"passed": passed, "gate": str(path), "verdicts": rows, "raise_to": raised})
            + "\n"
        )
    else:
        _print_tables([], [gates.table(verdicts)])
        if raised:
            sys.stdout.write(f"\nBetter than expected: raise {path} to\n{raised}\n")
        sys.stdout.write(f"Gate {path}: {'passed' if passed else 'FAILED'}\n")
    if not passed:
        raise typer.Exit(EXIT_GATE)


def _measured(
    dataset: Dataset,
    chosen: Sequence[Setup],
    work: Path,
    by: str | None,
    seed: int,
    more: Sequence[str],
) -> dict[str, Any]:
    """The report; exits with 130 when interrupted."""
    try:
        with _StopOnInterrupt() as stop:
            return evaluate(
                dataset,
                chosen,
                work,
                by=by,
                seed=seed,
                more=more,
                progress=_Progress,
                should_stop=stop.asked,
            )
    except Stopped:
        err.print("Interrupted. What was embedded is kept; run the same command to go on.")
        raise typer.Exit(EXIT_INTERRUPTED) from None


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
    _print_tables(tables.facts(made), tables.tables(made))


def _print_tables(facts: Sequence[tuple[str, str]], shown: Sequence[tables.Table]) -> None:
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
