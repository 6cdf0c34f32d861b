"""``knowport eval`` and ``knowport calibrate``.

Progress and warnings go to standard error, the result alone to standard output. Exit codes beside
those of ``knowport.errors``: 8 some queries failed or lost a leg, or documents were not indexed; 12
a gate failed; 13 calibration was refused; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from knowport.entrypoints import wire
from knowport.entrypoints.eval_output import Progress, StopOnInterrupt, err, print_tables
from knowport.errors import InvalidInput
from knowport.evaluation import fitting, gates, reports, setups, tables
from knowport.evaluation.calibration import REFUSE_BELOW, calibrate, store
from knowport.evaluation.calibration_tables import calibration_tables
from knowport.evaluation.datasets import Dataset, read_dataset
from knowport.evaluation.harness import evaluate
from knowport.evaluation.labelled import collect, read_labelled
from knowport.evaluation.named import check_names
from knowport.evaluation.runs import Setup, Stopped
from knowport.knowledge_base import KnowledgeBase
from knowport.settings import load_settings

EXIT_PARTIAL = 8
EXIT_GATE = 12
EXIT_REFUSED = 13
EXIT_INTERRUPTED = 130
SEED = 20_240_601

app = typer.Typer()

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
    if tables.troubles(made):
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
    with StopOnInterrupt() as stop, KnowledgeBase(settings=settings) as kb:
        if not kb.documents():
            raise InvalidInput(
                "The knowledge base holds no document.", field="home", remedy="Ingest some first."
            )
        show = Progress("calibrate")
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
        print_tables(*calibration_tables(values))
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
        print_tables([], [gates.table(verdicts)])
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
        with StopOnInterrupt() as stop:
            return evaluate(
                dataset,
                chosen,
                work,
                by=by,
                seed=seed,
                more=more,
                progress=Progress,
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
    print_tables(tables.facts(made), tables.tables(made))
