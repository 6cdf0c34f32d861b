"""An index is kept in line with a folder that changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from knowport.errors import InvalidInput, KnowportError
from knowport.model import IngestReport

# Seconds after a passing failure before it is tried again.
RETRY_SECONDS = 10.0


def keep_in_sync(
    ticks: Iterable[bool],
    sync: Callable[[], IngestReport],
    *,
    on_report: Callable[[IngestReport], None],
    on_error: Callable[[KnowportError], None],
    should_stop: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Sync at the first tick, and again whenever a tick says that something has changed.

    ``on_report`` hears of each time, ``on_error`` of a transient failure, after which the same is
    tried again a while later. So it is with a path that cannot be used any more after it could
    (a disk was unmounted, a folder is being swapped). Any other error is raised.
    """
    due, not_before, synced = True, clock(), False
    for changed in ticks:
        if should_stop():
            return
        due = due or changed
        if not due or clock() < not_before:
            continue
        try:
            report = sync()
        except KnowportError as error:
            if not (error.transient or (synced and isinstance(error, InvalidInput))):
                raise
            on_error(error)
            not_before = clock() + RETRY_SECONDS
        else:
            on_report(report)
            due, synced = False, True
