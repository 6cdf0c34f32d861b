"""What the commands share: options, consoles, exit codes, and the way to open a knowledge base."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from knowport.entrypoints.running import naming_service
from knowport.entrypoints.start import OUTPUT_FAILED

if TYPE_CHECKING:
    from knowport.knowledge_base import KnowledgeBase
    from knowport.settings import Settings

EXIT_NOT_FOUND = 1
EXIT_PARTIAL = 8
EXIT_EMPTY = 10
EXIT_INTERRUPTED = 130
EXIT_OUTPUT_CLOSED = 141  # as a shell reports a program that ended by SIGPIPE
EXIT_OUTPUT_FULL = OUTPUT_FAILED
EXIT_FAULT = 70  # EX_SOFTWARE of sysexits.h

# Into a pipe or a file an id is never folded over two lines.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 10_000)
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
Scope = Annotated[
    str | None,
    typer.Option("--scope", help="kb_scope; else retrieval.kb_scope.", show_default=False),
]
Category = Annotated[
    str | None, typer.Option("--category", "-c", help="Only documents of this category.")
]
Mode = Annotated[
    Literal["dense", "hybrid"] | None,
    typer.Option(help="Else retrieval.search.mode.", show_default=False),
]


@contextmanager
def opened(home: Path | None, config: Path | None) -> Iterator[KnowledgeBase]:
    """The knowledge base of the options, with its warnings on standard error."""
    from knowport.settings import load_settings  # noqa: PLC0415  # as below

    overrides = {"home": home} if home is not None else {}
    with opened_with(load_settings(overrides, config=config)) as kb:
        for warning in kb.warnings:
            err.print(f"Warning: {warning}", style="yellow", markup=False)
        yield kb


@contextmanager
def opened_with(settings: Settings, *, lost_ok: bool = False) -> Iterator[KnowledgeBase]:
    """The knowledge base of settings; IndexInUse names the service that has it."""
    # The client of the engine takes longer to load than a command needs that opens nothing.
    from knowport.knowledge_base import KnowledgeBase  # noqa: PLC0415

    with naming_service(settings.home):
        kb = KnowledgeBase(settings=settings, lost_ok=lost_ok)
    with kb:
        yield kb


def dumps(value: Any) -> str:
    """A value as JSON for people and programs."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def print_json(value: Any) -> None:
    """The one thing on standard output with --json."""
    sys.stdout.write(dumps(value) + "\n")


def print_json_line(value: Any) -> None:
    """One of many values, a line each, at once."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()
