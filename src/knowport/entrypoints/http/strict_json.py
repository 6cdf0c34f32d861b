"""JSON as it arrives: what a lenient parser would take and two parsers would read differently
is refused with 400."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn

from knowport.entrypoints.http.problems import Problem

_REMEDY = "Send one JSON value (RFC 8259) in UTF-8."


def loads(body: bytes) -> Any:
    """The value of a JSON text in UTF-8; raises Problem (400)."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused("invalid_utf8", f"Byte {error.start} of the body is not UTF-8.") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
        )
    except RecursionError:
        raise _refused("too_deep", "The JSON of the body is nested too deeply.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _refused("invalid_json", f"The body is not JSON: {error.msg} at {place}.") from None
    except ValueError as error:  # an integer of thousands of digits
        raise _refused("invalid_json", f"The body is not usable JSON: {error}.") from None
    if "\\ud" in text.lower():
        _refuse_surrogates(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _refused("duplicate_key", f"The key {twice!r} stands twice in one object.")
    return found


def _constant(name: str) -> NoReturn:
    raise _refused("invalid_json", f"{name} is not JSON.")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _refused("invalid_json", f"The number {text} is too large.")
    return value


def _refuse_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _refused(
            "invalid_unicode", "A text of the body has half of a surrogate pair."
        ) from None


def _refused(code: str, detail: str) -> Problem:
    return Problem(400, code, detail, remedy=_REMEDY)
