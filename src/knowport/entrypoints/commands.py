"""Which commands there are, and the module of each.

A module is loaded when its command is asked for: with what it needs, the client of the engine above
all, that takes longer than to print ``knowport --help``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

MARKUP = None  # any other would take [rag] in a help text for markup

# Name, module, and what the list of commands says of it.
_COMMANDS = {
    "status": ("status_cli", "Print what the index holds and what it stands on."),
    "config": ("status_cli", "Print every setting in force and where it comes from."),
    "ingest": ("ingest_cli", "Bring the index in line with a folder of files."),
    "audit": ("audit_cli", "Hold the ledger and the index against each other."),
    "rebuild": ("rebuild_cli", "Build the index anew while it serves, switch, and back."),
    "lookup": ("lookup_cli", "Print evidence for a query."),
    "explain": ("lookup_cli", "Print how a lookup came to its answer."),
    "trace": ("lookup_cli", "Print what was kept of an earlier lookup."),
    "evidence": ("lookup_cli", "Print what became of a chunk that was cited."),
    "documents": ("documents_cli", "List, show and delete documents."),
    "domains": ("documents_cli", "Check the domain catalogue."),
    "eval": ("eval_cli", "Measure retrieval on a labelled set."),
    "calibrate": ("calibrate_cli", "Fit the relevance levels to labelled questions."),
    "mcp": ("mcp_cli", "Serve one MCP client over standard input and output."),
    "serve": ("serve_cli", "Serve agents over HTTP."),
    "keys": ("keys_cli", "Create, list and revoke access keys of the service."),
}


class _Loaded(Mapping[str, Any]):
    """The commands by name, each loaded when it is taken."""

    def __getitem__(self, name: str) -> Any:
        module, _ = _COMMANDS[name]
        return _commands_of(module)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


@cache
def _commands_of(module: str) -> Mapping[str, Any]:
    around = typer.Typer(rich_markup_mode=MARKUP)
    around.add_typer(importlib.import_module(f"knowport.entrypoints.{module}").app)
    return get_group(around).commands


class Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Loaded()  # type: ignore[assignment]  # none is added

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the list."""
        return list(_COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])
