"""Room on the disk of an embedded index.

Lite 2.5.1 calls a write done that its disk has no room for. It holds the rows in memory, so that
they are counted and found, and they are gone with its process. So room is asked for beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knowport.adapters.disk import free_bytes, left_in
from knowport.errors import EngineFull

# In bytes. Every write changes the statistics of BM25 and leaves a journal of what it changes.
RESERVE = 4 << 20
# A row takes 1.6 times its size in the file; its indexes and the journal come on top.
FILE_PER_BYTE = 4
# Less than this after a write means that something else took the room.
_LEAST = 1 << 20


def is_embedded(uri: str) -> bool:
    """Whether a URI names a file and no server."""
    return "://" not in uri


@contextmanager
def room(uri: str, size: int = 0) -> Iterator[None]:
    """For a call that writes about ``size`` bytes of rows to the engine at ``uri``.

    Raises EngineFull where the disk of an embedded file has no room for them, before the call, or
    where it may have run out of it meanwhile. A server looks after its own disks.
    """
    if not is_embedded(uri):
        yield
        return
    folder = Path(uri).absolute().parent
    if lacks(folder, RESERVE + FILE_PER_BYTE * size):
        raise full(folder, f"the embedded index {Path(uri).name} is not written to")
    yield
    if lacks(folder, _LEAST):
        raise full(folder, f"the embedded index {Path(uri).name} may not hold what was written")


def lacks(folder: Path, size: int = _LEAST) -> bool:
    """Whether the disk of a folder is known to have less room than ``size`` bytes."""
    free = free_bytes(folder)
    return free is not None and free < size


def full(folder: Path, what: str) -> EngineFull:
    return EngineFull(
        f"The disk is full: {left_in(folder)}, and {what}.",
        remedy="Free space there, then run the same again. Nothing that was indexed is lost.",
    )
