"""When something below a folder changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from watchfiles import Change, watch

from knowport.errors import InvalidInput

# Milliseconds: changes that follow each other within a step are one, for as long as the debounce.
_STEP, _DEBOUNCE = 200, 1_600


def ticks(root: Path, leave_out: Path) -> Iterator[bool]:
    """A few times a second, whether something at or below ``root`` and not below ``leave_out`` has
    changed since the last time; from the first tick on nothing is missed.

    Raises InvalidInput where it cannot be watched.
    """
    own = f"{leave_out.resolve()}/"

    def counts(_change: Change, path: str) -> bool:
        return not path.startswith(own)

    try:
        for changed in watch(
            root.resolve(),
            watch_filter=counts,
            debounce=_DEBOUNCE,
            step=_STEP,
            rust_timeout=_STEP,
            yield_on_timeout=True,
        ):
            yield bool(changed)
    except (OSError, RuntimeError) as error:
        raise InvalidInput(
            f"{str(root)!r} cannot be watched: {error}.",
            field="path",
            remedy="Run the ingest from time to time instead.",
        ) from error
