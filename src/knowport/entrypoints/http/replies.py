"""How routes read requests and write replies."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse

from knowport.entrypoints.http import strict_json
from knowport.entrypoints.http.problems import MEDIA_TYPE, Problem

M = TypeVar("M", bound=BaseModel)

_MEANINGS = {
    400: "The request cannot be read.",
    401: "An access key is needed.",
    403: "The key's role, the Host or the Origin does not allow it.",
    404: "There is no such thing, or not in the scope of the key.",
    408: "The body came too slowly.",
    409: "It cannot be done in this state.",
    413: "The body is too large.",
    415: "The body is of a type that the route does not take.",
    422: "The request is understood and cannot be used.",
    429: "The key sent too many requests.",
    431: "The head of the request is too large.",
    500: "A fault of the service.",
    502: "What the service stands on failed.",
    503: "Too busy, or what the service stands on is away; try again.",
    504: "It took too long.",
    507: "A disk of the service is full.",
}
_ALWAYS = (400, 401, 403, 408, 413, 422, 429, 431, 500, 502, 503, 504, 507)


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """The error replies of a route for its description: those of every route, and ``more``."""
    return {
        status: {
            "description": _MEANINGS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({*_ALWAYS, *more})
    }


def example(value: Any) -> dict[str, Any]:
    """The 200 of a route with an example, for its description."""
    return {"content": {"application/json": {"example": value}}}


def reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """``value`` as JSON. What routes return is made by ``wire``; the models are its description."""
    return JSONResponse(value, status, headers=headers)


class _StrictRequest(Request):
    """A request whose JSON is read strictly."""

    async def json(self) -> Any:
        return strict_json.loads(await self.body())


class StrictRoute(APIRoute):
    """A route that takes JSON bodies only as JSON, and strictly. A body that may be left out may
    also be empty."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        field = self.body_field

        async def strictly(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if field is not None and (field.field_info.is_required() or await strict.body()):
                refuse_other_types(request, "application/json")
            return await handle(strict)

        return strictly


def refuse_other_types(request: Request, *types: str) -> None:
    """Raises Problem (415) for a body of another media type."""
    sent = media_type(request)
    if sent not in types:
        raise Problem(
            415,
            "media_type",
            f"The route does not take {sent!r}.",
            remedy=f"Send Content-Type: {' or '.join(types)}.",
        )


def media_type(request: Request) -> str:
    """The type of the body without its parameters, lower case; '' where it is not said."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def validated(model: type[M], value: Any) -> M:
    """``value`` as a model; raises RequestValidationError."""
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError(
            [{**item, "loc": ("body", *item["loc"])} for item in found]
        ) from None


def router(tag: str) -> APIRouter:
    """A router whose routes are strict."""
    return APIRouter(prefix="/v1", tags=[tag], route_class=StrictRoute)
