"""What whoever runs the service asks: status, health, readiness, figures."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response

from knowport.entrypoints import wire
from knowport.entrypoints.http import schemas
from knowport.entrypoints.http.access import Reader
from knowport.entrypoints.http.problems import Problem
from knowport.entrypoints.http.replies import problems, reply, router
from knowport.entrypoints.http.service import service_of

routes = router("operations")
probes = APIRouter(tags=["operations"])

_KNOWN = problems()
OF_PROBES: dict[int | str, dict[str, Any]] = {status: _KNOWN[status] for status in (400, 431, 500)}
OF_READINESS = {**OF_PROBES, 503: _KNOWN[503]}
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@routes.get("/status", response_model=schemas.StatusView, responses=problems(404))
async def status(caller: Reader, request: Request, kb_scope: schemas.Scope = None) -> Response:
    """What the knowledge base holds in the caller's scope, and what it stands on."""
    service = service_of(request)
    scope = service.scope(caller, kb_scope)
    current = await service.read(lambda: service.kb.status(scope))
    told = {"version": version("knowport"), **wire.status_json(current)}
    if caller.role != "admin":
        told |= {"home": None, "milvus_uri": None}
    return reply(told)


@probes.get("/healthz", response_model=schemas.Health, responses=OF_PROBES)
async def healthz() -> Response:
    """Whether the process answers. It needs no key and waits for nothing."""
    return reply({"status": "ok"})


@probes.get("/readyz", response_model=schemas.Health, responses=OF_READINESS)
async def readyz(request: Request) -> Response:
    """Whether lookups work: 503 until one has, and from when the service is told to end."""
    service = service_of(request)
    if service.draining:
        raise Problem(
            503,
            "draining",
            "The service is about to end.",
            remedy="Ask another replica.",
            transient=True,
        )
    if service.readiness.problem is not None:
        raise service.readiness.problem
    return reply({"status": "ok"})


@probes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {METRICS_TYPE: {}}, "description": "Figures."}, **problems()},
)
async def metrics(_: Reader, request: Request) -> Response:
    """Figures in the Prometheus text format."""
    return Response(service_of(request).metrics.text(), media_type=METRICS_TYPE)
