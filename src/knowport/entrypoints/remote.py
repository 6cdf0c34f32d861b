"""Commands that ask a running service instead of opening the knowledge base themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knowport.entrypoints.options import opened

if TYPE_CHECKING:
    from knowport.client import Client
    from knowport.knowledge_base import KnowledgeBase

Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Ask this running service, with the key in KNOWPORT_API_KEY. Else KNOWPORT_SERVER, "
        "where neither --home nor --config is given.",
        show_default=False,
    ),
]


def service_named(server: str | None, home: Path | None, config: Path | None) -> Client | None:
    """A client of the service that the command or the environment names, or None."""
    if server is None and home is None and config is None:
        server = os.environ.get("KNOWPORT_SERVER")
    if not server:
        return None
    # Imported here: the other commands need no HTTP client.
    from knowport.client import Client  # noqa: PLC0415

    return Client(server, api_key=os.environ.get("KNOWPORT_API_KEY", ""))


@contextmanager
def either(
    server: str | None, home: Path | None, config: Path | None
) -> Iterator[KnowledgeBase | Client]:
    """The service that is named, else the knowledge base opened here."""
    service = service_named(server, home, config)
    if service is not None:
        with service:
            yield service
    else:
        with opened(home, config) as kb:
            yield kb
