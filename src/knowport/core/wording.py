"""Words of messages."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the singular for 1: ``1 chunk``, ``2 chunks``, ``0 chunks``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
