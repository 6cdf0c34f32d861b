"""When something below a folder changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from watchfiles import Change, watch

from knowport.errors import InvalidInput

# Milliseconds: changes that follow each other within a step are one, for as long as the debounce.
_STEP, _DEBOUNCE = 200, 1_600


def ticks(root: Path, leave_out: Path) -> Iterator[bool]:
    """A few times a second, whether something at or below ``root`` and not below ``leave_out`` has
    changed since the last time; from the first tick on nothing is missed. It goes on where
    ``root`` was away for a while, or another one has taken its place.

    Raises InvalidInput where it cannot be watched.
    """
    own = f"{leave_out.resolve()}/"

    def counts(_change: Change, path: str) -> bool:
        return not path.startswith(own)

    try:
        while True:
            watched = _identity(root)
            for changed in watch(
                root.resolve(),
                watch_filter=counts,
                debounce=_DEBOUNCE,
                step=_STEP,
                rust_timeout=_STEP,
                yield_on_timeout=True,
            ):
                yield bool(changed)
                if _identity(root) != watched:
                    break
            while _identity(root) is None:
                time.sleep(_STEP / 1_000)
                yield False
            yield True
    except (OSError, RuntimeError) as error:
        raise InvalidInput(
            f"{str(root)!r} cannot be watched: {error}.",
            field="path",
            remedy="Run the ingest from time to time instead.",
        ) from error


def _identity(root: Path) -> tuple[int, int] | None:
    """What tells one file or folder from another in its place; None where there is none."""
    try:
        found = root.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
