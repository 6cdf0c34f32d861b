"""``knowport rebuild`` and ``knowport evidence``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from knowport.entrypoints import rebuild_output as output
from knowport.entrypoints.ingest_output import StopOnInterrupt
from knowport.entrypoints.options import (
    EXIT_INTERRUPTED,
    EXIT_NOT_FOUND,
    Config,
    Home,
    Json,
    opened,
    opened_with,
    out,
    print_json,
)
from knowport.errors import RebuildError
from knowport.knowledge_base import KnowledgeBase
from knowport.pipelines.rebuild_ports import Judge, OnProgress, RebuildProgress, SwitchReport
from knowport.pipelines.rebuild_verify import SAMPLE
from knowport.settings import load_settings

SEED = 20_240_601

app = typer.Typer()
rebuild_app = typer.Typer(
    help="Build the index anew while it serves, prove the new one, switch to it, and back.",
    no_args_is_help=True,
)
app.add_typer(rebuild_app, name="rebuild")

Queries = Annotated[
    Path | None,
    typer.Option(
        help="Labelled questions, JSON Lines as for `knowport calibrate`: the new index must not "
        "do worse with them."
    ),
]
Sample = Annotated[int, typer.Option(min=1, help="How many chunks to search for.")]
Force = Annotated[
    bool, typer.Option("--force", help="Switch although it is not verified; this is recorded.")
]


@contextmanager
def _opened(home: Path | None, config: Path | None) -> Iterator[KnowledgeBase]:
    """Also where the active collection is lost, which a rebuild mends."""
    settings = load_settings({"home": home} if home is not None else {}, config=config)
    with opened_with(settings, lost_ok=True) as kb:
        yield kb


def _judge(kb: KnowledgeBase, queries: Path | None, on_progress: OnProgress) -> Judge | None:
    if queries is None:
        return None
    # What measures is not loaded by those who do not measure.
    from knowport.evaluation.labelled import read_labelled  # noqa: PLC0415
    from knowport.evaluation.rebuild_judge import judge_by  # noqa: PLC0415

    return judge_by(
        read_labelled(queries),
        [info.doc_id for info in kb.documents()],
        seed=SEED,
        on_query=lambda done, total: on_progress(RebuildProgress("judge", done, total)),
    )


@rebuild_app.command()
def run(
    queries: Queries = None,
    force: Force = False,
    sample: Sample = SAMPLE,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Build a new index with the settings of now, verify it and switch to it.

    Made from the texts that the ledger keeps; vectors of texts that have not changed come from the
    cache. Lookups, ingests and deletes go on meanwhile. A rebuild that was interrupted goes on
    where it stopped. Exit code 14: it did not pass, and nothing was switched.

    Example: knowport rebuild run --queries labelled.jsonl
    """
    stop = StopOnInterrupt()
    with _opened(home, config) as kb, stop, output.rebuild_progress(quiet=as_json) as on_progress:
        report = kb.rebuild.run(
            judge=_judge(kb, queries, on_progress),
            force=force,
            sample=sample,
            on_progress=on_progress,
            should_stop=stop.asked,
        )
    _print(output.run_json(report), output.run_text(report), as_json=as_json)
    if report.switch is None:
        raise typer.Exit(EXIT_INTERRUPTED)


@rebuild_app.command()
def start(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """Build a new index beside the active one, and do not switch to it."""
    stop = StopOnInterrupt()
    with _opened(home, config) as kb, stop, output.rebuild_progress(quiet=as_json) as on_progress:
        report = kb.rebuild.start(on_progress=on_progress, should_stop=stop.asked)
    _print(asdict(report), output.build_text(report), as_json=as_json)
    if report.stopped:
        raise typer.Exit(EXIT_INTERRUPTED)


@rebuild_app.command()
def status(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """List the generations of the index, and what can be done next."""
    with _opened(home, config) as kb:
        found = kb.rebuild.status()
    if as_json:
        print_json(output.status_json(found))
    else:
        output.print_status(out, found)


@rebuild_app.command()
def verify(
    queries: Queries = None,
    sample: Sample = SAMPLE,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Prove the new index: every row, sampled searches, and labelled queries if given.

    Exit code 14: it did not pass.
    """
    with _opened(home, config) as kb, output.rebuild_progress(quiet=as_json) as on_progress:
        report = kb.rebuild.verify(
            judge=_judge(kb, queries, on_progress), sample=sample, on_progress=on_progress
        )
    _print(output.verify_json(report), output.verify_text(report), as_json=as_json)
    if not report.passed:
        raise typer.Exit(RebuildError.exit_code)


@rebuild_app.command()
def activate(
    force: Force = False, as_json: Json = False, home: Home = None, config: Config = None
) -> None:
    """Switch to the new index, after it has caught up with what was written meanwhile."""
    with _opened(home, config) as kb, output.rebuild_progress(quiet=as_json) as on_progress:
        report = kb.rebuild.activate(force=force, on_progress=on_progress)
    _print_switch(report, as_json=as_json)


@rebuild_app.command()
def rollback(
    name: Annotated[
        str | None,
        typer.Argument(help="A previous generation; else the one that was active before."),
    ] = None,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Switch back to a previous index, after it has caught up with what was written since."""
    with _opened(home, config) as kb, output.rebuild_progress(quiet=as_json) as on_progress:
        report = kb.rebuild.rollback(name, on_progress=on_progress)
    _print_switch(report, as_json=as_json)


@rebuild_app.command()
def abort(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """Drop the new index that is being built or waits to be switched to."""
    with _opened(home, config) as kb:
        name = kb.rebuild.abort()
    _print({"dropped": name}, f"Dropped {name}.", as_json=as_json)


@rebuild_app.command()
def drop(
    name: Annotated[
        str, typer.Argument(help="A generation, or a collection that `rebuild status` names.")
    ],
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Drop a previous index, and with it the way back to it."""
    with _opened(home, config) as kb:
        collection = kb.rebuild.drop(name)
    _print({"dropped": collection}, f"Dropped collection {collection}.", as_json=as_json)


@app.command()
def evidence(
    key: Annotated[str, typer.Argument(help="An evidence key, as an answer's document_id.")],
    generation: Annotated[
        str | None, typer.Option(help="The generation that the answer named.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it was cited: UTC, ISO 8601.")
    ] = None,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print whether a cited evidence key still stands for the same text, or where that is now.

    Without --generation or --at the oldest text is meant that it is known to have stood for; where
    it stood for several, all are listed. Exit code 1: no chunk holds the text any more.

    Example: knowport evidence handbook/mysql/locks.md#chunk-3
    """
    with opened(home, config) as kb:
        found = kb.evidence(key, generation=generation, at=at)
    _print(asdict(found), output.evidence_text(found), as_json=as_json)
    if not found.to:
        raise typer.Exit(EXIT_NOT_FOUND)


def _print_switch(report: SwitchReport, *, as_json: bool) -> None:
    _print(asdict(report), output.switch_text(report), as_json=as_json)


def _print(values: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(values)
    else:
        out.print(text, markup=False)
