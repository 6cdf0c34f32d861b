"""Generations of the index, and rebuilds.

A generation holds every scope, so all of this takes an admin's key and concerns all scopes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from fastapi import Request, Response

from knowport.entrypoints.http import schemas
from knowport.entrypoints.http.access import Admin
from knowport.entrypoints.http.jobs import Reporter
from knowport.entrypoints.http.replies import problems, reply, router
from knowport.entrypoints.http.routes.jobs import ACCEPTED, accepted
from knowport.entrypoints.http.service import Service, service_of
from knowport.entrypoints.rebuild_output import run_json, status_json, verify_json
from knowport.pipelines.rebuild_ports import RebuildProgress

routes = router("generations")

Step = Callable[[Callable[[RebuildProgress], None], Reporter], Mapping[str, Any]]


@routes.get("/generations", response_model=schemas.GenerationList, responses=problems())
async def generations(_: Admin, request: Request) -> Response:
    """Every generation, oldest first, and what can be done next."""
    service = service_of(request)
    return reply(status_json(await service.read(service.kb.rebuild.status)))


@routes.post(
    "/generations",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(415)},
)
async def rebuild(body: schemas.RebuildBody, _: Admin, request: Request) -> Response:
    """Rebuild the index with the settings of the service: build a new generation from the stored
    texts, verify it, and switch to it unless `switch` is false. A rebuild that was interrupted
    goes on where it stopped. Lookups and writes go on meanwhile."""
    service = service_of(request)

    def run(tell: Callable[[RebuildProgress], None], reporter: Reporter) -> Mapping[str, Any]:
        steps = service.kb.rebuild
        if body.switch:
            return run_json(
                steps.run(force=body.force, on_progress=tell, should_stop=reporter.stopped)
            )
        built = steps.start(on_progress=tell, should_stop=reporter.stopped)
        return {"build": asdict(built), "verify": None, "switch": None}

    return _begin("rebuild", run, service, request)


@routes.post(
    "/generations/verify",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems()},
)
async def verify(_: Admin, request: Request) -> Response:
    """Prove the generation that is built. The job is done also where it did not pass; its result
    says so."""
    service = service_of(request)

    def run(tell: Callable[[RebuildProgress], None], _: Reporter) -> Mapping[str, Any]:
        return verify_json(service.kb.rebuild.verify(on_progress=tell))

    return _begin("verify", run, service, request)


@routes.post(
    "/generations/activate",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(415)},
)
async def activate(body: schemas.ActivateBody, _: Admin, request: Request) -> Response:
    """Switch to the generation that is verified, after it has caught up with what was written."""
    service = service_of(request)

    def run(tell: Callable[[RebuildProgress], None], _: Reporter) -> Mapping[str, Any]:
        return asdict(service.kb.rebuild.activate(force=body.force, on_progress=tell))

    return _begin("activate", run, service, request)


@routes.post(
    "/generations/rollback",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(415)},
)
async def rollback(body: schemas.RollbackBody, _: Admin, request: Request) -> Response:
    """Switch back to a previous generation, after it has caught up with what was written."""
    service = service_of(request)

    def run(tell: Callable[[RebuildProgress], None], _: Reporter) -> Mapping[str, Any]:
        return asdict(service.kb.rebuild.rollback(body.name, on_progress=tell))

    return _begin("rollback", run, service, request)


@routes.post("/generations/abort", response_model=schemas.Dropped, responses=problems(409))
async def abort(_: Admin, request: Request) -> Response:
    """Drop the generation that is being built or waits to be switched to. A job that builds it is
    cancelled first."""
    service = service_of(request)
    return reply({"dropped": await service.write(service.kb.rebuild.abort)})


@routes.delete("/generations/{name}", response_model=schemas.Dropped, responses=problems(409))
async def drop(name: str, _: Admin, request: Request) -> Response:
    """Drop a previous generation, and with it the way back to it."""
    service = service_of(request)
    return reply({"dropped": await service.write(lambda: service.kb.rebuild.drop(name))})


def _begin(kind: str, step: Step, service: Service, request: Request) -> Response:
    def work(reporter: Reporter) -> Mapping[str, Any]:
        started, failed = time.monotonic(), True
        try:
            done = step(lambda now: reporter.progress(asdict(now)), reporter)
            failed = False
            return done
        finally:
            service.metrics.rebuilt(kind, time.monotonic() - started, failed=failed)

    return accepted(service.jobs.start(kind, work, kb_scope=None), service, request)
