"""``knowport audit``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from knowport.entrypoints import audit_output as output
from knowport.entrypoints.options import EXIT_PARTIAL, Config, Home, Json, print_json
from knowport.entrypoints.remote import Server, either
from knowport.entrypoints.remote_jobs import finished
from knowport.knowledge_base import KnowledgeBase
from knowport.pipelines.audit_active import DEFAULT_SAMPLE

app = typer.Typer()


def _sample(value: str) -> int | None:
    if value == "all":
        return None
    if not (value.isascii() and value.isdecimal()):
        raise typer.BadParameter(f"{value!r} is neither a number nor 'all'.")
    return int(value)


@app.command()
def audit(
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what is wrong from the ledger's texts.")
    ] = False,
    sample: Annotated[
        Any,
        typer.Option(
            parser=_sample,
            metavar="N|all",
            help="How many chunks to search for by their vectors and words.",
        ),
    ] = str(DEFAULT_SAMPLE),
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Hold the ledger and the index against each other, both ways.

    Found are missing chunks, rows that no document knows of, wrong hashes, duplicates, wrong
    scopes and categories, and chunks that a search by their own text does not find. Others may
    read and write meanwhile. Exit code 8: something is wrong, with --repair: still wrong.

    Example: knowport audit --repair --sample all
    """
    with either(server, home, config) as kb, output.audit_progress(quiet=as_json) as on_progress:
        if not isinstance(kb, KnowledgeBase):
            done = finished(
                kb,
                lambda: kb.audit(repair=repair, sample="all" if sample is None else sample),
                lambda now: on_progress(output.as_progress(now)),
            )
        elif repair:
            done = output.repair_json(kb.repair(sample=sample, on_progress=on_progress))
        else:
            done = output.audit_json(kb.audit(sample=sample, on_progress=on_progress))
    if as_json:
        print_json(done)
    elif repair:
        output.print_repair(done)
    else:
        output.print_audit(done)
    if (done["after"] if repair else done)["findings"]:
        raise typer.Exit(EXIT_PARTIAL)
