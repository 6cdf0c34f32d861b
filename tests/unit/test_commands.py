"""Which commands there are, and what is loaded to tell of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.main import get_command

from knowport.entrypoints.cli import app
from support import clean_environment

# Runs a command line, and says afterwards which of the packages that take long were loaded.
RUN = """
import sys
from knowport.entrypoints.start import main
sys.argv = ["knowport", *sys.argv[1:]]
try:
    main()
finally:
    heavy = "numpy", "pandas", "pymilvus", "sqlalchemy", "httpx"
    print(*[name for name in heavy if name in sys.modules], file=sys.stderr)
"""


def loaded_by(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.splitlines()[-1].split()


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["looup"], ["--nonsense"]])
def test_what_opens_nothing_loads_nothing_that_takes_long(arguments: list[str]) -> None:
    assert loaded_by(*arguments) == []


def test_the_settings_are_shown_without_the_engine() -> None:
    assert {"pymilvus", "sqlalchemy", "httpx"}.isdisjoint(loaded_by("config"))


def test_a_lookup_loads_the_engine_or_an_http_client() -> None:
    asked = loaded_by("lookup", "x", "--server", "http://127.0.0.1:9")
    assert "httpx" in asked
    assert {"pymilvus", "sqlalchemy"}.isdisjoint(asked)
    assert loaded_by("lookup", "--help") == ["numpy"]


def test_the_list_names_every_command_in_a_line_that_is_not_cut() -> None:
    commands = dict(get_command(app).commands)  # type: ignore[attr-defined]
    shown = subprocess.run(
        [sys.executable, "-m", "knowport.entrypoints.start", "--help"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = shown.partition("Commands:\n")[2].splitlines()
    listed = [line.split(maxsplit=1) for line in lines if line.strip()]
    assert [name for name, _ in listed] == list(commands)
    assert all(summary.endswith(".") and "..." not in summary for _, summary in listed)
    assert {name: command.name for name, command in commands.items()} == {n: n for n in commands}


def test_a_mistyped_command_is_answered_with_the_right_one() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "knowport.entrypoints.start", "looup", "--json"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Did you mean 'lookup'?" in json.loads(done.stderr)["error"]["message"]
