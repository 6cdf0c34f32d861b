"""Which paths are wanted: patterns as ``.gitignore`` has them, from the caller and in the folders.

Paths are relative to what the patterns belong to, with ``/``; those of folders end with one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

from knowport.errors import InvalidInput

IGNORE_FILE = ".knowportignore"


@dataclass(frozen=True, slots=True)
class Ignored:
    """What the ignore files from the root down to a folder say; ``folder`` is '' or ends with /.

    The deepest file that says anything about a path decides.
    """

    folder: str
    spec: GitIgnoreSpec
    above: Ignored | None = None

    def __call__(self, path: str) -> bool:
        said = self.spec.check_file(path.removeprefix(self.folder)).include
        if said is None:
            return self.above is not None and self.above(path)
        return said


def selector(include: Sequence[str], exclude: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path passes: it, and every folder above it, is not excluded, and a file is among
    what is included (all, where ``include`` is empty). Raises InvalidInput for a wrong pattern."""
    wanted = parse(include, where="include", field="include") if include else None
    unwanted = parse(exclude, where="exclude", field="exclude") if exclude else None

    def selects(path: str) -> bool:
        if unwanted and any(unwanted.match_file(above) for above in _with_folders(path)):
            return False
        return wanted is None or path.endswith("/") or wanted.match_file(path)

    return selects


def literal(path: str) -> str:
    """The pattern of one path below the root and of what is in it."""
    return "/" + re.sub(r"([\\*?\[\]! #])", r"\\\1", path)


def _with_folders(path: str) -> Iterator[str]:
    """``a/``, ``a/b/``, ``a/b/c.md`` of ``a/b/c.md``."""
    end = path.find("/")
    while end >= 0:
        yield path[: end + 1]
        end = path.find("/", end + 1)
    if not path.endswith("/"):
        yield path


def parse(lines: Iterable[str], *, where: str, field: str) -> GitIgnoreSpec:
    """Patterns, one a line. Raises InvalidInput, which says ``where`` the wrong one stands."""
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise InvalidInput(
            f"{where}: {error}.", field=field, remedy="Patterns are those of .gitignore."
        ) from error
