"""From bodies of replies to values, and from arguments to bodies of requests."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from knowport.client.errors import ServiceError

T = TypeVar("T")


def value_of(kind: TypeAdapter[T], body: bytes) -> T:
    """The value of a reply; members that this version does not know are left alone.

    Raises ServiceError.
    """
    try:
        return kind.validate_json(body)
    except ValidationError as error:
        raise ServiceError(
            "The service answered something else than was asked for: "
            f"{error.errors(include_input=False)[0]['msg']}.",
            remedy="Check that the address is that of a Knowport service, of a like version.",
        ) from error


def given(**values: Any) -> dict[str, Any]:
    """Without what is left to the service."""
    return {name: value for name, value in values.items() if value is not None}
