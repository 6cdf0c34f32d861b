"""The bytes of a file, whole and of one moment."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from knowport.adapters.loading.limits import raised
from knowport.errors import LoadError


def read_file(path: Path, most: int) -> bytes:
    """Content of a regular file of at most ``most`` bytes.

    Raises LoadError: ``unreadable``, ``too_large`` (without reading it), or
    ``changed_while_read`` where it was written to meanwhile.
    """
    with opened(path) as file:
        before = os.fstat(file.fileno())
        check_size(before.st_size, most)
        data = _read_up_to(file, before.st_size + 1)
        after = os.fstat(file.fileno())
    if len(data) != before.st_size or _version(before) != _version(after):
        raise LoadError(
            "The file changed while it was read.",
            reason="changed_while_read",
            remedy="Run the same command again when nothing writes to it.",
        )
    return data


@contextmanager
def opened(path: Path) -> Iterator[FileIO]:
    """A regular file, unbuffered. Raises LoadError ``unreadable``, for reading errors as well."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise _unreadable("it is a folder, a pipe or a device")
        with FileIO(handle) as file:
            yield file
    except OSError as error:
        raise _unreadable(error.strerror or str(error)) from error
    except ValueError as error:  # a NUL in the name
        raise _unreadable(str(error)) from error


def check_size(size: int, most: int) -> None:
    """Raises LoadError ``too_large`` where ``size`` is over ``most`` bytes."""
    if size > most:
        raise LoadError(
            f"The file has {size} bytes; the limit is {most}.",
            reason="too_large",
            remedy=raised("file_bytes"),
        )


def _read_up_to(file: FileIO, size: int) -> bytes:
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _unreadable(why: str) -> LoadError:
    return LoadError(
        f"The file cannot be read: {why}.",
        reason="unreadable",
        remedy="Mend its permissions, or leave it out.",
    )
