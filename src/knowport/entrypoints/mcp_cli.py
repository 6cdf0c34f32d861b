"""``knowport mcp``."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from knowport.entrypoints.options import Config, Home, Scope
from knowport.settings import load_settings

app = typer.Typer()


@app.command()
def mcp(
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            envvar="KNOWPORT_SERVER",
            help="Address of a running service that knows the answers.",
            show_default=False,
        ),
    ] = None,
    scope: Scope = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Serve the tool lookup_knowledge to one MCP client over standard input and output.

    One process at a time can open the embedded index. For several agents run `knowport serve`, and
    give each of them its address with --server and its access key in KNOWPORT_API_KEY.

    Example: knowport mcp --server http://127.0.0.1:8765
    """
    # Importing the SDK takes longer than most commands do.
    from knowport.entrypoints.mcp.command import serve_local, serve_proxy  # noqa: PLC0415

    settings = load_settings({"home": home} if home is not None else {}, config=config)
    if server:
        api_key = os.environ.get("KNOWPORT_API_KEY", "")
        serve_proxy(settings, kb_scope=scope, server=server, api_key=api_key)
    else:
        serve_local(settings, kb_scope=scope or settings.retrieval.kb_scope)
