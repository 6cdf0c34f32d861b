"""``knowport eval``.

Progress and warnings go to standard error, the result alone to standard output. Exit codes beside
those of ``knowport.errors``: 8 some queries failed or lost a leg, or documents were not indexed; 12
a gate failed; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from knowport.entrypoints.eval_output import (
    SEED,
    Progress,
    StopOnInterrupt,
    print_tables,
    write_files,
)
from knowport.entrypoints.options import (
    EXIT_INTERRUPTED,
    EXIT_PARTIAL,
    Config,
    Home,
    Json,
    dumps,
    err,
)
from knowport.errors import InvalidInput
from knowport.evaluation import gates, reports, setups, tables
from knowport.evaluation.datasets import Dataset, read_dataset
from knowport.evaluation.harness import evaluate
from knowport.evaluation.named import check_names
from knowport.evaluation.runs import Setup, Stopped
from knowport.settings import load_settings

EXIT_GATE = 12


app = typer.Typer()


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
        write_files(report, reports.files(made))
    _show(made, as_json=as_json)
    if tables.troubles(made):
        raise typer.Exit(EXIT_PARTIAL)


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
        write_files(report, reports.files(made))
    verdicts = gates.judge(gate, made)
    passed, raised = gates.passed(verdicts), gates.raised(gate, verdicts)
    for text in tables.warnings(made):
        err.print(f"Warning: {text}", style="yellow", markup=False)
    if as_json:
        rows = [asdict(verdict) for verdict in verdicts]
        sys.stdout.write(
            dumps({"passed": passed, "gate": str(path), "verdicts": rows, "raise_to": raised})
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


def _show(made: dict[str, Any], *, as_json: bool) -> None:
    for text in tables.warnings(made):
        err.print(f"Warning: {text}", style="yellow", markup=False)
    if as_json:
        sys.stdout.write(dumps(made) + "\n")
        return
    print_tables(tables.facts(made), tables.tables(made))
