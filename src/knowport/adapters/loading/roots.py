"""Which folder each source was ingested from, and how: so that two folders of one name do not share
ids, and that a folder can be read again.

Kept in a file of the home and not in the ledger, which several machines may share: paths are a
machine's own.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from knowport.model import Root


class Roots:
    """What is remembered in ``file``. A guard against mistakes and no more: where it cannot be
    read or written, nothing is remembered."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def other_than(self, folder: Path, source: str) -> Path | None:
        """The folder that the source was ingested from, if it is another one and still there."""
        before = self.of(source)
        if before is None or before.folder == folder or not before.folder.is_dir():
            return None
        return before.folder

    def of(self, source: str) -> Root | None:
        """Where the source was ingested from last, if that is known."""
        return self.all().get(source)

    def all(self) -> dict[str, Root]:
        """Where each source was ingested from last."""
        try:
            known = json.loads(self._file.read_text(encoding="ascii"))
            return {
                source: Root(Path(root["folder"]), root["options"])
                for source, root in known.items()
            }
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            return {}

    def remember(self, source: str, root: Root | None) -> None:
        """The source was ingested from there last; None forgets it."""
        known = self.all()
        if known.get(source) == root:
            return
        known.pop(source, None)
        if root is not None:
            known[source] = root
        values = {
            name: {"folder": str(one.folder), "options": one.options} for name, one in known.items()
        }
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with suppress(OSError):
            new.write_text(json.dumps(values, indent=1), encoding="ascii")
            new.replace(self._file)
