"""Which folder each source was ingested from, so that two folders of one name do not share ids.

Kept in a file of the home and not in the ledger, which several machines may share: paths are a
machine's own.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path


class Roots:
    """What is remembered in ``file``. A guard against mistakes and no more: where it cannot be
    read or written, nothing is remembered."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def other_than(self, root: Path, source: str) -> Path | None:
        """The folder that the source was ingested from, if it is another one and still there."""
        before = self.of(source)
        return before if before and before != root and before.is_dir() else None

    def of(self, source: str) -> Path | None:
        """The folder that the source was ingested from last, if that is known."""
        known = self._known().get(source)
        return None if known is None else Path(known)

    def remember(self, source: str, root: Path | None) -> None:
        """The source was ingested from that folder last; None forgets it."""
        known = self._known()
        if known.get(source) == (None if root is None else str(root)):
            return
        known.pop(source, None)
        if root is not None:
            known[source] = str(root)
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with suppress(OSError):
            new.write_text(json.dumps(known, indent=1), encoding="ascii")
            new.replace(self._file)

    def _known(self) -> dict[str, str]:
        try:
            known = json.loads(self._file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return {}
        return (
            {k: v for k, v in known.items() if isinstance(v, str)}
            if isinstance(known, dict)
            else {}
        )
