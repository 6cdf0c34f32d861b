"""What ``knowport mcp`` runs."""

from __future__ import annotations

import anyio

from knowport.client import Client
from knowport.entrypoints.mcp import stdio
from knowport.entrypoints.mcp.backends import Backend, LocalBackend, RemoteBackend
from knowport.entrypoints.mcp.server import build_server
from knowport.entrypoints.mcp.threads import OpenedOnce, Threads
from knowport.entrypoints.running import running_service
from knowport.errors import IndexInUse
from knowport.knowledge_base import KnowledgeBase
from knowport.settings import Settings


def serve_local(settings: Settings, *, kb_scope: str) -> None:
    """Serve a knowledge base of this process over standard input and output.

    It is opened for the first request: a client is answered at once when it starts us, and is told
    by the tool itself what is wrong with the knowledge base.
    """
    opened = OpenedOnce(lambda: _opened(settings))
    with stdio.private_wire() as wire:
        try:
            backend = LocalBackend(opened, Threads(settings.mcp.threads), kb_scope)
            _serve(backend, settings, wire)
        finally:
            opened.close()


def _opened(settings: Settings) -> KnowledgeBase:
    try:
        return KnowledgeBase(settings=settings)
    except IndexInUse as error:
        url = running_service(settings.home)
        if url is not None:
            error.remedy = f"A service runs over it: start this server with --server {url}."
        raise


def serve_proxy(settings: Settings, client: Client, *, kb_scope: str | None) -> None:
    """Serve what a running service knows, so that several agents share one index."""
    with stdio.private_wire() as wire, client:
        _serve(RemoteBackend(client, Threads(settings.mcp.threads), kb_scope), settings, wire)


def _serve(backend: Backend, settings: Settings, wire: stdio.Wire) -> None:
    server = build_server(lambda _: backend, max_bytes=settings.mcp.max_bytes)
    anyio.run(stdio.serve, server, wire)
