"""``knowport lookup``, ``explain``, ``trace`` and ``evidence``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from knowport.entrypoints import render, wire
from knowport.entrypoints.options import (
    EXIT_EMPTY,
    EXIT_NOT_FOUND,
    Category,
    Config,
    Home,
    Json,
    Mode,
    Scope,
    out,
    print_json,
)
from knowport.entrypoints.remote import Server, either
from knowport.errors import UnknownLookup
from knowport.pipelines.explain import Explanation

app = typer.Typer()


@app.command()
def lookup(
    query: Annotated[str, typer.Argument(help="A question, an error line or a code.")],
    category: Category = None,
    mode: Mode = None,
    scope: Scope = None,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print evidence for a query. With --json, exactly what an agent gets.

    Exit code 1: nothing found. 10: the index is empty.

    Example: knowport lookup "ERROR 1205 (HY000)" --json
    """
    with either(server, home, config) as kb:
        answer = kb.lookup(query, category=category, kb_scope=scope, mode=mode)
    if as_json:
        print_json(wire.answer_json(answer))
    else:
        render.answer(out, answer, query)
    if not answer.found:
        empty = any(notice.code == "empty_index" for notice in answer.notices)
        raise typer.Exit(EXIT_EMPTY if empty else EXIT_NOT_FOUND)


@app.command()
def explain(
    query: Annotated[str, typer.Argument(help="As for lookup.")],
    document_id: Annotated[
        str | None,
        typer.Option(
            "--document-id", "-d", help="Evidence key or document id: why is it (not) there?"
        ),
    ] = None,
    category: Category = None,
    mode: Mode = None,
    scope: Scope = None,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print how a lookup came to its answer: plan, attempts, and the fate of every candidate.

    Example: knowport explain "ERROR 1205" --document-id handbook/mysql/locks.md
    """
    with either(server, home, config) as kb:
        found = kb.explain(
            query, document_id=document_id, category=category, kb_scope=scope, mode=mode
        )
    values = wire.explanation_json(found) if isinstance(found, Explanation) else found
    if as_json:
        print_json(values)
    else:
        render.explanation(out, values)


@app.command()
def trace(
    lookup_id: Annotated[str, typer.Argument(help="As an answer names it: lk_...")],
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print the stored trace of a lookup, as JSON with or without --json."""
    del as_json  # a trace has one form
    with either(server, home, config) as kb:
        stored = kb.trace(lookup_id)
    if stored is None:
        raise UnknownLookup(
            f"There is no trace of {lookup_id!r}.",
            remedy="Traces are kept for trace.max_age_days and up to trace.max_count.",
        )
    print_json(stored)


@app.command()
def evidence(
    key: Annotated[str, typer.Argument(help="An evidence key, as an answer's document_id.")],
    generation: Annotated[
        str | None, typer.Option(help="The generation that the answer named.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it was cited: UTC, ISO 8601.")
    ] = None,
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope",
            help="Only what stood in this kb_scope. A service knows that of the key only, or "
            "retrieval.kb_scope.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print whether a cited evidence key still stands for the same text, or where that is now.

    Without --generation or --at the oldest text is meant that it is known to have stood for; where
    it stood for several, all are listed. Exit code 1: no chunk holds the text any more.

    Example: knowport evidence handbook/mysql/locks.md#chunk-3
    """
    with either(server, home, config) as kb:
        found = kb.evidence(key, generation=generation, at=at, kb_scope=scope)
    if as_json:
        print_json(asdict(found))
    else:
        out.print(render.evidence_text(found), markup=False)
    if not any(meaning.to for meaning in found.meanings):
        raise typer.Exit(EXIT_NOT_FOUND)
