"""Filter expressions, built here and nowhere else.

The language is the part that every engine reads alike: ``==`` and lower-case ``and``. An escaped
newline or tab never matches on Milvus Lite 2.5.1, so values with control characters are refused
instead of being escaped into a filter that silently matches nothing.
"""

from __future__ import annotations

import re

from knowport.errors import InvalidInput

# The categories Cc and Cs of Unicode.
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")


def is_literal(value: str) -> bool:
    """Whether a value can be asked for: it holds no control character and no lone surrogate."""
    return _CONTROL.search(value) is None


def literal(value: str, *, field: str) -> str:
    """A string literal that matches exactly ``value``; backslash first, then the quote.

    Raises InvalidInput for control characters and lone surrogates.
    """
    if not is_literal(value):
        raise InvalidInput(
            f"{field} {value!r} contains a control character.",
            field=field,
            remedy="Remove line breaks, tabs and other control characters.",
        )
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def equals(**values: str | None) -> str:
    """``a == "x" and b == "y"`` over the given fields; None leaves a field out."""
    return " and ".join(
        f"{name} == {literal(value, field=name)}"
        for name, value in values.items()
        if value is not None
    )
