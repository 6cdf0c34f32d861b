"""``knowport mcp``."""

from __future__ import annotations

import typer

from knowport.entrypoints.options import Config, Home, Scope
from knowport.entrypoints.remote import Server, service_named
from knowport.settings import load_settings

app = typer.Typer()


@app.command()
def mcp(
    scope: Scope = None, server: Server = None, home: Home = None, config: Config = None
) -> None:
    """Serve the tool lookup_knowledge to one MCP client over standard input and output.

    One process at a time can open the embedded index. For several agents run `knowport serve`, and
    give each of them its address with --server.

    Example: knowport mcp --server http://127.0.0.1:8765
    """
    # Importing the SDK takes longer than most commands do.
    from knowport.entrypoints.mcp.command import serve_local, serve_proxy  # noqa: PLC0415

    settings = load_settings({"home": home} if home is not None else {}, config=config)
    service = service_named(server, home, config)
    if service is not None:
        serve_proxy(settings, service, kb_scope=scope)
    else:
        serve_local(settings, kb_scope=scope or settings.retrieval.kb_scope)
