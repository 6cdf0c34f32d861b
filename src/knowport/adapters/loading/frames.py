"""Messages between the loader and its parser process: a JSON header and a payload of bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_LENGTHS = 2 * 8

Header = dict[str, Any]


def pack(header: Header, payload: bytes) -> list[bytes]:
    """The bytes of a message, in pieces to be sent one after the other."""
    head = json.dumps(header).encode()
    return [len(head).to_bytes(8, "big") + len(payload).to_bytes(8, "big"), head, payload]


def unpack(read: Callable[[int], bytes]) -> tuple[Header, bytes]:
    """The next message. ``read`` gives exactly so many bytes, or raises EOFError."""
    lengths = read(_LENGTHS)
    header = json.loads(read(int.from_bytes(lengths[:8], "big")))
    return header, read(int.from_bytes(lengths[8:], "big"))
