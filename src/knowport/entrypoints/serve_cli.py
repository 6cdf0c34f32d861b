"""``knowport serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from knowport.entrypoints.options import Config, Home, err, opened_with, out
from knowport.settings import load_settings, secrets_of

app = typer.Typer()


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Else server.host.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(help="Else server.port; 0 takes a free one.", show_default=False)
    ] = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Serve agents over HTTP until Ctrl-C or SIGTERM.

    Without access keys it listens on loopback only; see `knowport keys create`. The log goes to
    standard error as JSON.

    Example: knowport serve --port 8765
    """
    # Imported here: the other commands need no web server.
    from knowport.entrypoints.http.server import listen, serve  # noqa: PLC0415
    from knowport.entrypoints.logging_setup import set_up_logging  # noqa: PLC0415
    from knowport.entrypoints.tracing import set_up_tracing  # noqa: PLC0415

    named = {"host": host, "port": port}
    server = {key: value for key, value in named.items() if value is not None}
    overrides = {**({"home": home} if home is not None else {}), "server": server}
    settings = load_settings(overrides, config=config)
    set_up_tracing(secrets_of(settings))
    with listen(settings.server) as listening, opened_with(settings) as kb:
        for warning in kb.warnings:
            err.print(f"Warning: {warning}", style="yellow", markup=False)
        set_up_logging(settings.server.log_level, secrets_of(settings))
        serve(kb, listening, lambda url: _greet(url, keys=kb.access.any()))


def _greet(url: str, *, keys: bool) -> None:
    key = " -H 'Authorization: Bearer kp_...'" if keys else ""
    out.print(f"Listening at {url}", markup=False)
    out.print(
        f"Try: curl {url}/v1/lookup -H 'Content-Type: application/json'{key} "
        """-d '{"query": "ERROR 1205 (HY000)"}'""",
        markup=False,
    )
    out.print(f"API: {url}/openapi.json    Ctrl-C ends it.", markup=False)
    out.file.flush()
