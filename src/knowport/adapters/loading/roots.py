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
        known = self._known().get(source)
        if known is None:
            return None
        before = Path(known)
        return before if before != root and before.is_dir() else None

    def remember(self, source: str, root: Path) -> None:
        """The source was ingested from that folder last."""
        known = self._known()
        if known.get(source) == str(root):
            return
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with suppress(OSError):
            new.write_text(json.dumps(known | {source: str(root)}, indent=1), encoding="ascii")
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
