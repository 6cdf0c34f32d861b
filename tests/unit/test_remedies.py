"""What messages tell people to set and to run exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.main import get_command

import knowport
from knowport.entrypoints.cli import app
from knowport.settings import Settings

SOURCES = sorted(Path(knowport.__file__).parent.rglob("*.py"))
SECTIONS = "|".join(
    name
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
)
SETTING = re.compile(rf"(?<![\w./\"'])((?:{SECTIONS})(?:\.[a-z_]+)+)\b(?!\()")
COMMAND = re.compile(r"`knowport ([a-z]+(?: [a-z]+)?)|(?:command|run|Run|first): knowport ([a-z]+)")
FILES = {"milvus.db", "server.json"}  # names of files that look like settings


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the code that people may read, with where it stands. Not: docstrings."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and id(node) not in docs:
                yield f"{path.name}:{node.lineno}", text


def named(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    return [
        (where, next(filter(None, found.groups())))
        for where, text in texts()
        if " " in text  # a sentence, not a key
        for found in pattern.finditer(text)
    ]


def is_setting(name: str) -> bool:
    kind: object = Settings
    for part in name.split("."):
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return False
        field = kind.model_fields.get(part)
        if field is None:
            return False
        kind = field.annotation
    return True


def is_command(words: str) -> bool:
    first, *rest = words.split()
    command = get_command(app).commands.get(first)  # type: ignore[attr-defined]
    inner = getattr(command, "commands", None)
    return command is not None and (inner is None or not rest or rest[0] in inner)


def test_every_setting_that_a_message_names_exists() -> None:
    found = [(where, name) for where, name in named(SETTING) if name not in FILES]

    assert {"milvus.uri", "rag.retrieve_k", "trace.max_count"} <= {name for _, name in found}
    assert [(where, name) for where, name in found if not is_setting(name)] == []


def test_every_command_that_a_message_names_exists() -> None:
    found = named(COMMAND)

    assert {"ingest", "rebuild run"} <= {name for _, name in found}
    assert [(where, name) for where, name in found if not is_command(name)] == []


@pytest.mark.parametrize("name", ["milvus.url", "rag", "loading.bytes", "milvus.uri.x"])
def test_a_name_that_is_no_setting(name: str) -> None:
    assert is_setting(name) is (name == "rag")
