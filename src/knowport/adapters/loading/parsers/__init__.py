"""One module for each format that is parsed in the child process.

Each has ``parse(data, limits)``, which raises LoadError for what it refuses; whatever else it
raises means that the file is broken. Nothing here is imported by the parent, except ``Parsed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a parser made of a file: see ``LoadedFile`` for the fields. ``text_format`` is
    ``markdown`` or ``plain``."""

    text: str
    kind: str
    text_format: str = "markdown"
    title: str = ""
    removed: int = 0
    metadata: Mapping[str, int | str] = field(default_factory=dict)
