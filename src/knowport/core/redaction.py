"""Secrets taken out of what leaves the process: logs, traces, error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"
KEY_PREFIX = "kp_"
"""What every access key begins with."""
# Our own access keys, wherever they come from, and what follows the name of a credential.
_KEY = re.compile(KEY_PREFIX + r"[A-Za-z0-9_\-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer|authorization\W{1,4}\w+)\s+[\w.~+/=\-]{6,}")
_ADDRESS = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")  # scheme://user:password@host
# Shorter values are words that a text may well hold.
_SHORTEST = 6


class Redactor:
    """Masks access keys, credentials and ``secrets``, the values that this process was given."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        values = {value for value in secrets if len(value) >= _SHORTEST}
        # In a line of JSON a value stands in its escaped form.
        escaped = {
            json.dumps(v, ensure_ascii=ascii_)[1:-1] for v in values for ascii_ in (False, True)
        }
        longest_first = sorted(values | escaped, key=len, reverse=True)
        self._given = re.compile("|".join(map(re.escape, longest_first))) if values else None

    def __call__(self, text: str) -> str:
        """``text`` without secrets."""
        if len(text) < _SHORTEST:
            return text
        if self._given is not None:
            text = self._given.sub(MASK, text)
        if KEY_PREFIX in text:
            text = _KEY.sub(MASK, text)
        if "://" in text:
            text = _ADDRESS.sub(rf"\1{MASK}", text)
        return _BEARER.sub(rf"\1 {MASK}", text)

    def values(self, value: Any) -> Any:
        """JSON values without secrets in their texts; names of fields are as they were."""
        match value:
            case str():
                return self(value)
            case Mapping():
                return {name: self.values(item) for name, item in value.items()}
            case list() | tuple():
                return [self.values(item) for item in value]
            case _:
                return value
