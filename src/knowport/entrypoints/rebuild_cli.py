"""``knowport rebuild``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowport.entrypoints import rebuild_output as output
from knowport.entrypoints.ingest_output import StopOnInterrupt
from knowport.entrypoints.judging import judge_of
from knowport.entrypoints.options import (
    EXIT_INTERRUPTED,
    EXIT_PARTIAL,
    Config,
    Home,
    Json,
    opened_with,
    out,
    print_json,
)
from knowport.entrypoints.rebuild_here import run_here
from knowport.entrypoints.remote import Server, service_named
from knowport.entrypoints.remote_jobs import cancel, finished
from knowport.errors import InvalidInput, RebuildError
from knowport.knowledge_base import KnowledgeBase
from knowport.pipelines.rebuild_ports import NotVerified, OnProgress
from knowport.pipelines.rebuild_verify import SAMPLE
from knowport.settings import load_settings

if TYPE_CHECKING:
    from knowport.client import Client
    from knowport.client.values import Job
    from knowport.evaluation.labelled import LabelledQuery

app = typer.Typer(
    name="rebuild",
    help="Build the index anew while it serves, prove the new one, switch to it, and back.",
    no_args_is_help=True,
)

# Jobs of a service that work on the generations.
_STEPS = ("rebuild", "verify", "activate", "rollback")

Queries = Annotated[
    Path | None,
    typer.Option(
        help="Labelled questions, JSON Lines as for `knowport calibrate`: the new index must not "
        "do worse with them."
    ),
]
Sample = Annotated[int, typer.Option(min=1, help="How many chunks to search for.")]
ReadAgain = Annotated[
    bool,
    typer.Option(
        "--reread",
        help="Read every folder again that was ingested here, as it was ingested last: for changed "
        "files, and for formats that this Knowport reads better.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Switch although it is not verified; this is recorded.")
]


@contextmanager
def _either(
    server: str | None, home: Path | None, config: Path | None
) -> Iterator[KnowledgeBase | Client]:
    """The service that is named, else the knowledge base opened here, also where the active
    collection is lost, which a rebuild mends."""
    service = service_named(server, home, config)
    if service is not None:
        with service:
            yield service
        return
    settings = load_settings({"home": home} if home is not None else {}, config=config)
    with opened_with(settings, lost_ok=True) as kb:
        yield kb


def _labelled(queries: Path | None) -> tuple[LabelledQuery, ...] | None:
    if queries is None:
        return None
    # What measures is not loaded by those who do not measure.
    from knowport.evaluation.labelled import read_labelled  # noqa: PLC0415

    return read_labelled(queries)


def _sent(queries: tuple[LabelledQuery, ...] | None) -> list[dict[str, Any]] | None:
    """Labelled questions as a service takes them."""
    if queries is None:
        return None
    return [
        {"_id": query.query_id, "text": query.text, "documents": list(query.documents)}
        for query in queries
    ]


def _finished(
    service: Client, begin: Callable[[], Job], on_progress: OnProgress
) -> Mapping[str, Any]:
    return finished(service, begin, lambda now: on_progress(output.as_progress(now)))


@app.command()
def run(
    queries: Queries = None,
    force: Force = False,
    sample: Sample = SAMPLE,
    reread: ReadAgain = False,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Build a new index with the settings of now, verify it and switch to it.

    Made from the texts that the ledger keeps; vectors of texts that have not changed come from the
    cache. Lookups, ingests and deletes go on meanwhile. A rebuild that was interrupted goes on
    where it stopped. Exit code 14: it did not pass, and nothing was switched.

    Example: knowport rebuild run --queries labelled.jsonl
    """
    labelled = _labelled(queries)
    with _either(server, home, config) as kb:
        if isinstance(kb, KnowledgeBase):
            with StopOnInterrupt() as stop:
                done: Mapping[str, Any] = run_here(
                    kb, labelled, stop, force=force, sample=sample, reread=reread, quiet=as_json
                )
        elif reread:
            raise InvalidInput(
                "--reread reads folders of this machine, and a service cannot.",
                field="reread",
                remedy="Send them first (`knowport ingest PATH --server URL`).",
            )
        else:
            steps, sent = kb.rebuild, _sent(labelled)
            with output.rebuild_progress(quiet=as_json) as on_progress:
                done = _finished(
                    kb, lambda: steps.run(force=force, sample=sample, queries=sent), on_progress
                )
    _print(done, output.run_text, as_json=as_json)
    verified = done["verify"]
    if verified and not verified["passed"] and done["switch"] is None:
        raise NotVerified(verified["generation"], verified["failures"])
    if done["switch"] is None or output.reread_stopped(done):
        raise typer.Exit(EXIT_INTERRUPTED)
    if output.reread_failed(done):
        raise typer.Exit(EXIT_PARTIAL)


@app.command()
def start(
    as_json: Json = False, server: Server = None, home: Home = None, config: Config = None
) -> None:
    """Build a new index beside the active one, and do not switch to it."""
    with _either(server, home, config) as kb, output.rebuild_progress(quiet=as_json) as on_progress:
        if isinstance(kb, KnowledgeBase):
            with StopOnInterrupt() as stop:
                report = kb.rebuild.start(on_progress=on_progress, should_stop=stop.asked)
            built: Mapping[str, Any] = asdict(report)
        else:
            steps = kb.rebuild
            built = _finished(kb, lambda: steps.run(switch=False), on_progress)["build"]
    _print(built, output.build_text, as_json=as_json)
    if built["stopped"]:
        raise typer.Exit(EXIT_INTERRUPTED)


@app.command()
def status(
    as_json: Json = False, server: Server = None, home: Home = None, config: Config = None
) -> None:
    """List the generations of the index, and what can be done next."""
    with _either(server, home, config) as kb:
        if isinstance(kb, KnowledgeBase):
            found = output.status_json(kb.rebuild.status())
        else:
            found = kb.rebuild.details()
    if as_json:
        print_json(found)
    else:
        output.print_status(out, found)


@app.command()
def verify(
    queries: Queries = None,
    sample: Sample = SAMPLE,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Prove the new index: every row, sampled searches, and labelled queries if given.

    Exit code 14: it did not pass.
    """
    labelled = _labelled(queries)
    with _either(server, home, config) as kb, output.rebuild_progress(quiet=as_json) as on_progress:
        if isinstance(kb, KnowledgeBase):
            judge = judge_of(kb, labelled, on_progress)
            report = kb.rebuild.verify(judge=judge, sample=sample, on_progress=on_progress)
            verified: Mapping[str, Any] = output.verify_json(report)
        else:
            steps, sent = kb.rebuild, _sent(labelled)
            verified = _finished(kb, lambda: steps.verify(sample=sample, queries=sent), on_progress)
    _print(verified, output.verify_text, as_json=as_json)
    if not verified["passed"]:
        raise typer.Exit(RebuildError.exit_code)


@app.command()
def activate(
    force: Force = False,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Switch to the new index, after it has caught up with what was written meanwhile."""
    with _either(server, home, config) as kb, output.rebuild_progress(quiet=as_json) as on_progress:
        if isinstance(kb, KnowledgeBase):
            report = kb.rebuild.activate(force=force, on_progress=on_progress)
            switched: Mapping[str, Any] = asdict(report)
        else:
            steps = kb.rebuild
            switched = _finished(kb, lambda: steps.activate(force=force), on_progress)
    _print(switched, output.switch_text, as_json=as_json)


@app.command()
def rollback(
    name: Annotated[
        str | None,
        typer.Argument(help="A previous generation; else the one that was active before."),
    ] = None,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Switch back to a previous index, after it has caught up with what was written since."""
    with _either(server, home, config) as kb, output.rebuild_progress(quiet=as_json) as on_progress:
        if isinstance(kb, KnowledgeBase):
            report = kb.rebuild.rollback(name, on_progress=on_progress)
            switched: Mapping[str, Any] = asdict(report)
        else:
            steps = kb.rebuild
            switched = _finished(kb, lambda: steps.rollback(name), on_progress)
    _print(switched, output.switch_text, as_json=as_json)


@app.command()
def abort(
    as_json: Json = False, server: Server = None, home: Home = None, config: Config = None
) -> None:
    """Drop the new index that is being built or waits to be switched to.

    With --server a rebuild that is at work is stopped first.
    """
    with _either(server, home, config) as kb:
        if not isinstance(kb, KnowledgeBase):
            cancel(kb, kinds=_STEPS)
        dropped = {"dropped": kb.rebuild.abort()}
    _print(dropped, lambda values: f"Dropped {values['dropped']}.", as_json=as_json)


@app.command()
def drop(
    name: Annotated[
        str, typer.Argument(help="A generation, or a collection that `rebuild status` names.")
    ],
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Drop an index that is not the active one, and with it the way back to it."""
    with _either(server, home, config) as kb:
        dropped = {"dropped": kb.rebuild.drop(name)}
    _print(dropped, lambda values: f"Dropped collection {values['dropped']}.", as_json=as_json)


def _print(
    values: Mapping[str, Any], text: Callable[[Mapping[str, Any]], str], *, as_json: bool
) -> None:
    if as_json:
        print_json(values)
    else:
        out.print(text(values), markup=False)
