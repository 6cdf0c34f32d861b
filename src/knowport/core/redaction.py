"""Secrets taken out of what leaves the process: logs, traces, error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

MASK = "***"
# Our own access keys, wherever they come from, and what follows the name of a credential.
_KEY = re.compile(r"kp_[A-Za-z0-9_\-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer|authorization\W{1,4}\w+)\s+[\w.~+/=\-]{6,}")
_ADDRESS = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")  # scheme://user:password@host
# Shorter values are words that a text may well hold.
_SHORTEST = 6


class Redactor:
    """Masks access keys, credentials and ``secrets``, the values that this process was given."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        values = {value for value in secrets if len(value) >= _SHORTEST}
        # In a line of JSON a value stands in its escaped form.
        escaped = {json.dumps(v, ensure_ascii=ascii_)[1:-1] for v in values for ascii_ in (0, 1)}
        longest_first = sorted(values | escaped, key=len, reverse=True)
        self._given = re.compile("|".join(map(re.escape, longest_first))) if values else None

    def __call__(self, text: str) -> str:
        """``text`` without secrets."""
        if self._given is not None:
            text = self._given.sub(MASK, text)
        text = _KEY.sub(MASK, text)
        text = _BEARER.sub(rf"\1 {MASK}", text)
        return _ADDRESS.sub(rf"\1{MASK}", text)
