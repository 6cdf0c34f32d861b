"""Values of filters as callers give them."""

from __future__ import annotations

import unicodedata

from knowport.errors import InvalidInput

MAX_FILTER_BYTES = 256
_NO_FILTER = frozenset({"", "*", "null"})


def checked_filter(value: str | None, *, field: str) -> str | None:
    """A filter value trimmed, or None where it means no filter (blank, ``*``, ``null``).

    Raises InvalidInput for control characters, lone surrogates and over 256 UTF-8 bytes.
    """
    if value is None:
        return None
    # Looked for before trimming: a trailing line break is a mistake, not white space.
    if any(unicodedata.category(c) in {"Cc", "Cs"} for c in value):
        raise InvalidInput(
            f"{field} {value!r} contains a control character.",
            field=field,
            remedy="Remove line breaks, tabs and other control characters.",
        )
    trimmed = unicodedata.normalize("NFC", value.strip())
    if trimmed.lower() in _NO_FILTER:
        return None
    if (size := len(trimmed.encode())) > MAX_FILTER_BYTES:
        raise InvalidInput(
            f"{field} has {size} UTF-8 bytes; the limit is {MAX_FILTER_BYTES}.", field=field
        )
    return trimmed
