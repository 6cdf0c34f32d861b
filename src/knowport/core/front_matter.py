"""Front matter: the values that stand before a Markdown text."""

from __future__ import annotations

import datetime
import itertools
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import regex
import yaml

from knowport.core.text import normalise_text

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

_MAX_FRONT_MATTER = 64_000  # characters; the YAML parser is slow, and real ones are far smaller
_MAX_VALUES = 10_000  # YAML aliases can stand for exponentially many values
_FRONT_MATTER = regex.compile(
    r"(?:(?P<yaml>---)[ \t]*\n(?P<body>(?:.*\n)*?)(?:---|\.\.\.)"
    r"|\+\+\+[ \t]*\n(?P<body>(?:.*\n)*?)\+\+\+)[ \t]*(?:\n|\Z)"
)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """``values`` by name; ``body_start`` is the offset of the text after the front matter."""

    values: dict[str, JSON] = field(default_factory=dict)
    body_start: int = 0


# A document is asked for its fields and then for its chunks.
@lru_cache(maxsize=1)
def split_front_matter(text: str) -> FrontMatter:
    """Front matter at the very start of a text: YAML between ``---`` or TOML between ``+++``.

    What is unclosed, invalid, too large or not a mapping counts as body. Never raises. Values
    that JSON does not know (dates, binary) become strings.
    """
    match = _FRONT_MATTER.match(text, 0, min(len(text), _MAX_FRONT_MATTER))
    if match is None:
        return FrontMatter()
    load: Callable[[str], object] = _load_yaml if match["yaml"] else tomllib.loads
    try:
        values = _as_json(load(match["body"]), itertools.count())
    # PyYAML lets these through for values that do not suit their tag (a date of month 13).
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        return FrontMatter()
    except RecursionError:  # nested too deeply, or an alias that holds itself
        return FrontMatter()
    return FrontMatter(values, match.end()) if isinstance(values, dict) else FrontMatter()


# The C parser where PyYAML was built with it: ten times as fast.
_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _YamlLoader(_SafeLoader):  # type: ignore[misc, valid-type]
    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """No merge keys: a few nested ones make exponentially many entries. They are an error."""


def _load_yaml(source: str) -> object:
    return yaml.load(source, _YamlLoader)


def _as_json(value: object, counter: Iterator[int]) -> JSON:
    if next(counter) > _MAX_VALUES:
        raise ValueError("too many values")
    match value:
        case dict():
            return {_text(key): _as_json(item, counter) for key, item in value.items()}
        case list() | tuple() | set():
            return [_as_json(item, counter) for item in value]
        case None | bool():
            return value
        case int() | float() if abs(value) < 2**63:  # false for infinity and NaN as well
            return value
        case _:
            return _text(value)


def _text(value: object) -> str:
    if isinstance(value, datetime.date | datetime.time):
        value = value.isoformat()
    return normalise_text(str(value)).text
