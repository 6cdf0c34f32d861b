"""``knowport documents`` and ``knowport domains``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from knowport.core.wording import counted
from knowport.entrypoints import render, wire
from knowport.entrypoints.options import (
    EXIT_PARTIAL,
    Category,
    Config,
    Home,
    Json,
    Scope,
    opened,
    out,
    print_json,
)
from knowport.entrypoints.remote import Server, either
from knowport.knowledge_base import KnowledgeBase

app = typer.Typer()
documents_app = typer.Typer(name="documents", help="List, show and delete documents.")
domains_app = typer.Typer(name="domains", help="The domain catalogue.")
app.add_typer(documents_app)
app.add_typer(domains_app)


@domains_app.command("check")
def domains_check(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """Hold the domain catalogue against the categories in the index.

    Unknown domains, categories without a domain and shared keywords are listed; exit code 8 if
    there is any. The catalogue is the domains.toml at the top of an ingested folder.
    """
    with opened(home, config) as kb:
        domains = kb.domains.domains
        findings = kb.check_domains() if domains else ()  # no catalogue is nothing wrong
    if as_json:
        print_json(
            {
                "domains": [domain.id for domain in domains],
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        for finding in findings:
            out.print(f"{finding.code}: {finding.message}", markup=False)
        said = f"{counted(len(domains), 'domain')}, {counted(len(findings), 'finding')}."
        out.print(said, markup=False)
    if findings:
        raise typer.Exit(EXIT_PARTIAL)


@documents_app.command("list")
def documents_list(
    category: Category = None,
    scope: Scope = None,
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """List the documents of a scope."""
    with either(server, home, config) as kb:
        infos = tuple(kb.documents(kb_scope=scope, category=category))
    if as_json:
        print_json([wire.document_json(info) for info in infos])
    else:
        render.documents(out, infos)


@documents_app.command("show")
def documents_show(
    doc_id: Annotated[str, typer.Argument(help="As `documents list` prints it.")],
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Print a document's stored text and what is known of it."""
    with either(server, home, config) as kb:
        if isinstance(kb, KnowledgeBase):
            info, document = kb.document(doc_id)
            text = document.text
        else:
            stored = kb.document(doc_id)
            info, text = stored.info, stored.text
    if as_json:
        print_json({**wire.document_json(info), "text": text})
    else:
        render.document(out, info, text)


@documents_app.command("delete")
def documents_delete(
    doc_id: Annotated[str, typer.Argument(help="As `documents list` prints it.")],
    as_json: Json = False,
    server: Server = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Delete a document from the index. The file it came from stays."""
    with either(server, home, config) as kb:
        removed = kb.delete(doc_id)
    if as_json:
        print_json({"doc_id": doc_id, "chunks_deleted": removed})
    else:
        out.print(f"Deleted {doc_id}: {counted(removed, 'chunk')}.", markup=False)
