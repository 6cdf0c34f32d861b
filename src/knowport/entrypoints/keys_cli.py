"""``knowport keys``: who may use the service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from knowport.bootstrap.ledgers import opened_ledger
from knowport.entrypoints.options import Config, Home, Json, out, print_json
from knowport.errors import InvalidInput
from knowport.model import ApiKey, Role
from knowport.pipelines.access import AccessKeys, is_usable
from knowport.settings import load_settings

app = typer.Typer(
    name="keys",
    help="Create, list and revoke access keys of the service.",
    no_args_is_help=True,
)

_SPAN = re.compile(r"(\d{1,5})([dh])")


@contextmanager
def _access(home: Path | None, config: Path | None) -> Iterator[AccessKeys]:
    """Without the engine, which a running service may hold."""
    overrides = {"home": home} if home is not None else {}
    with opened_ledger(load_settings(overrides, config=config)) as ledger:
        yield AccessKeys(ledger)


@app.command()
def create(
    scope: Annotated[str, typer.Option(help="The one kb_scope that the key may use.")],
    role: Annotated[
        Role, typer.Option(help="reader: look up; writer: documents and jobs too; admin: all.")
    ],
    name: Annotated[str, typer.Option(help="For people: whose key it is.")] = "",
    expires: Annotated[
        str | None,
        typer.Option(help="In 90d or 12h, or at 2026-12-31 (UTC). Else never.", show_default=False),
    ] = None,
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Make an access key and print it, once: only its hash is kept.

    A running service knows it after a second.

    Example: knowport keys create --scope default --role reader --name agent-1 --expires 90d
    """
    until = None if expires is None else _moment(expires)
    with _access(home, config) as access:
        secret, key = access.create(kb_scope=scope, role=role, name=name, expires_at=until)
    if as_json:
        print_json({"key": secret, **_told(key)})
        return
    out.print(secret, markup=False)
    out.print(
        f"Key {key.key_id}: {key.role} of scope {key.kb_scope}, "
        f"expires {key.expires_at or 'never'}. It is not shown again.",
        markup=False,
    )


@app.command("list")
def list_keys(as_json: Json = False, home: Home = None, config: Config = None) -> None:
    """List the keys: everything but the keys themselves."""
    with _access(home, config) as access:
        keys = access.listed()
    if as_json:
        print_json([_told(key) for key in keys])
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "state", "role", "scope", "name", "created", "expires"):
        table.add_column(column, overflow="fold")
    for key in keys:
        cells = (
            key.key_id,
            _state(key),
            key.role,
            key.kb_scope,
            key.name,
            key.created_at,
            key.expires_at or "never",
        )
        table.add_row(*(Text(cell) for cell in cells))
    out.print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `keys list` prints it.")],
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Let a key serve no more. A running service knows it after a second."""
    with _access(home, config) as access:
        access.revoke(key_id)
    if as_json:
        print_json({"key_id": key_id, "revoked": True})
    else:
        out.print(f"Key {key_id} is revoked.", markup=False)


def _told(key: ApiKey) -> dict[str, Any]:
    values = asdict(key)
    del values["key_hash"]
    return {**values, "state": _state(key)}


def _state(key: ApiKey) -> str:
    if key.revoked_at:
        return "revoked"
    return "valid" if is_usable(key) else "expired"


def _moment(text: str) -> datetime:
    """A time from now (``90d``, ``12h``), or one in ISO 8601, in UTC where it names no zone."""
    span = _SPAN.fullmatch(text.strip())
    if span:
        hours = int(span[1]) * (24 if span[2] == "d" else 1)
        return datetime.now(UTC) + timedelta(hours=hours)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(
            f"--expires {text!r} is no time.",
            field="expires",
            remedy="Give 90d, 12h or 2026-12-31.",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
