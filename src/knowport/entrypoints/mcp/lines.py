"""Lines of a descriptor, one at a time, so that waiting for the next can be cancelled."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import anyio

_READ_BYTES = 65_536


class LineTooLong(ValueError):
    """A line beyond the limit; it was skipped."""


async def lines(descriptor: int, *, max_bytes: int) -> AsyncIterator[bytes | LineTooLong]:
    """Each line without its end, until the end of the input; the last may lack its line end.

    Reads when the descriptor has something and never before, so the descriptor may be a blocking
    one. A regular file or the null device cannot be waited for, and never blocks.
    """
    held = bytearray()
    skipping = False
    while chunk := await _read(descriptor):
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            held += end
            if skipping or len(held) > max_bytes:
                yield LineTooLong()
            else:
                yield bytes(held)
            held.clear()
            skipping = False
        held += rest
        if len(held) > max_bytes:
            held.clear()
            skipping = True
    if skipping:
        yield LineTooLong()
    elif held:
        yield bytes(held)


async def _read(descriptor: int) -> bytes:
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:
        await anyio.lowlevel.checkpoint()
    return os.read(descriptor, _READ_BYTES)
