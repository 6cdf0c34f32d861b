"""Chunk marks as bytes: 40 for each, in order of the chunks."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from knowport.model import ChunkMark

# SHA-256, then start and end as unsigned 32-bit numbers, little-endian.
_MARK = struct.Struct("<32sII")


def packed(marks: Sequence[ChunkMark]) -> bytes:
    return b"".join(_MARK.pack(bytes.fromhex(m.content_hash), m.start, m.end) for m in marks)


def unpacked(data: bytes) -> tuple[ChunkMark, ...]:
    return tuple(ChunkMark(sha.hex(), start, end) for sha, start, end in _MARK.iter_unpack(data))
