"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import compile_path
from starlette.types import ASGIApp

from knowport.entrypoints.http import schemas
from knowport.entrypoints.http.observe import Observed, note_problem
from knowport.entrypoints.http.problems import MEDIA_TYPE, as_problem
from knowport.entrypoints.http.routes import (
    audits,
    documents,
    domains,
    generations,
    jobs,
    lookups,
    operations,
)
from knowport.entrypoints.http.service import Service, service_of
from knowport.entrypoints.http.wall import Wall
from knowport.entrypoints.mcp.http import mount
from knowport.errors import KnowportError

DESCRIPTION = """\
Evidence from an organisation's own documents, for AI agents and for people.

With access keys every route but `/healthz`, `/readyz` and `/openapi.json` needs
`Authorization: Bearer kp_...`. A key is bound to one scope, and what stands in another is as if it
did not exist. Every error is a problem document (RFC 9457) with a stable `code` and a `remedy`.
Every reply carries `X-Request-ID`, which stands in the log of the service too.
"""


def create_app(service: Service) -> ASGIApp:
    """The whole service: the routes behind the wall, seen from outside."""
    api = create_api(service)
    wall = Wall(api, service.settings, service.kb.access, loopback=service.loopback)
    return Observed(wall, service.metrics, service.redact, lambda: service.draining)


def create_api(service: Service) -> FastAPI:
    """The routes alone."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        api.state.description = asyncio.create_task(asyncio.to_thread(_described, api))
        async with service.running():
            yield
        await api.state.description

    api = FastAPI(
        title="Knowport",
        version=version("knowport"),
        description=DESCRIPTION,
        # Served below: making it takes a while, and the pages that show it load foreign scripts.
        openapi_url=None,
        # Its spans would carry the whole address, and so ids and queries; ``observe`` makes ours.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        lifespan=lifespan,
        redirect_slashes=False,
    )
    api.state.service = service
    for topic in (lookups, documents, domains, jobs, generations, audits, operations):
        api.include_router(topic.routes)
    api.include_router(operations.probes)
    mount(api, service)
    for kind in (KnowportError, RequestValidationError, HTTPException):
        api.add_exception_handler(kind, _tell)
    api.add_exception_handler(Exception, _tell_fault)

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        described = await asyncio.shield(request.app.state.description)
        return Response(described, media_type="application/json")

    return api


async def _tell(request: Request, error: Exception) -> Response:
    problem = as_problem(error)
    note_problem(problem, error, service_of(request).metrics)
    response = _response(request, error)
    if problem.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(_methods(request)) or response.headers["Allow"]
    return response


def _methods(request: Request) -> list[str]:
    """The methods of a path; the framework names those of its first route alone."""
    described = (request.app.openapi_schema or {}).get("paths", {})
    path = request.url.path
    # A path that stands there as it is comes before one with a parameter.
    fitting = (
        [path]
        if path in described
        else [template for template in described if compile_path(template)[0].match(path)]
    )
    return sorted(method.upper() for template in fitting for method in described[template])


async def _tell_fault(request: Request, error: Exception) -> Response:
    return _response(request, error)  # it is raised again, and logged outside


def _response(request: Request, error: Exception) -> Response:
    problem = as_problem(error)
    redact = service_of(request).redact
    return Response(
        problem.body(request.state.request_id, redact),
        status_code=problem.status_code,
        headers=problem.headers,
        media_type=MEDIA_TYPE,
    )


# Bodies that routes read by themselves, and the shape of every error.
_MODELS = (schemas.Problem, schemas.DocumentBody, schemas.DeleteBody)


def _described(api: FastAPI) -> bytes:
    """The description of the API (OpenAPI 3.1) as JSON."""
    described = api.openapi()
    known = described.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        known.pop(name, None)
    for model in _MODELS:
        found = model.model_json_schema(ref_template="#/components/schemas/{model}")
        known.update(found.pop("$defs", {}))
        known[model.__name__] = found
    return json.dumps(described, ensure_ascii=False).encode()
