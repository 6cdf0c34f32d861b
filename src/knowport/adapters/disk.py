"""How much room the disk of a file has."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def free_bytes(folder: Path) -> int | None:
    """Bytes that an ordinary user may still write on the disk of a folder, as ``df`` tells them.

    0 also where no more files can be made; None where the disk does not say.
    """
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    if not disk.f_blocks:
        return None
    if disk.f_files and not disk.f_favail:
        return 0
    return disk.f_bavail * disk.f_frsize


def left_in(folder: Path) -> str:
    """How much room a folder has left, in words."""
    free = free_bytes(folder)
    return f"{folder} has {'no room' if free is None else f'{free // 1024:,} KiB'} left"


def says_full(error: OSError) -> bool:
    """Whether an error of the system says that a disk, or the share of it that is ours, is full."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}
