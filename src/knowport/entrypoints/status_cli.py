"""``knowport status`` and ``config``."""

from __future__ import annotations

from dataclasses import asdict

import typer

from knowport.entrypoints import render
from knowport.entrypoints.options import Config, Home, Json, out, print_json
from knowport.entrypoints.remote import Server, either
from knowport.settings import effective_settings

app = typer.Typer()


@app.command()
def status(
    as_json: Json = False, server: Server = None, home: Home = None, config: Config = None
) -> None:
    """Print what the index holds and what it stands on."""
    with either(server, home, config) as kb:
        current = kb.status()
    if as_json:
        print_json(asdict(current))
    else:
        render.status(out, current)


@app.command("config")
def show_config(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """Print every setting in force, where it comes from and what it means. Secrets are masked.

    A setting is taken from the environment (KNOWPORT_RAG__RETRIEVE_K=30), else from the file
    (section [rag], retrieve_k = 30), else its default.
    """
    overrides = {"home": home} if home is not None else {}
    rows = effective_settings(overrides, config=config)
    if as_json:
        print_json({row.key: {"value": row.value, "origin": row.origin} for row in rows})
    else:
        render.settings(out, [asdict(row) for row in rows])
