"""``knowport calibrate``. Exit codes beside those of ``knowport.errors``: 13 refused; 130
interrupted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from knowport.entrypoints.eval_output import (
    SEED,
    Progress,
    StopOnInterrupt,
    print_tables,
    write_files,
)
from knowport.entrypoints.options import EXIT_INTERRUPTED, Config, Home, Json, dumps, err
from knowport.errors import InvalidInput
from knowport.evaluation import fitting
from knowport.evaluation.calibration import REFUSE_BELOW, calibrate, store
from knowport.evaluation.calibration_tables import calibration_tables
from knowport.evaluation.html import calibration_html
from knowport.evaluation.labelled import collect, read_labelled
from knowport.evaluation.runs import Stopped
from knowport.knowledge_base import KnowledgeBase
from knowport.settings import load_settings

EXIT_REFUSED = 13

app = typer.Typer()


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
    report: Annotated[
        Path | None, typer.Option(help="Write calibration.html and .json into this folder.")
    ] = None,
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
    if report is not None:
        files = {
            "calibration.json": dumps(values),
            "calibration.html": calibration_html(values),
        }
        write_files(report, files)
    if as_json:
        sys.stdout.write(dumps(values) + "\n")
    else:
        print_tables(*calibration_tables(values))
    if outcome.refusal:
        err.print(f"Not calibrated. {outcome.refusal}", style="yellow", markup=False)
        raise typer.Exit(EXIT_REFUSED)
