"""Generations of the index, and rebuilds.

A generation holds every scope, so all of this takes an admin's key and concerns all scopes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from knowport.entrypoints.http import schemas
from knowport.entrypoints.http.access import Admin
from knowport.entrypoints.http.jobs import Reporter, Stopped
from knowport.entrypoints.http.problems import Problem
from knowport.entrypoints.http.replies import problems, reply, router
from knowport.entrypoints.http.routes.jobs import ACCEPTED, accepted
from knowport.entrypoints.http.service import Service, service_of
from knowport.entrypoints.http.upkeep_schemas import (
    Activate,
    Rebuild,
    Rollback,
    Verify,
    VerifyBody,
)
from knowport.entrypoints.judging import judge_of
from knowport.entrypoints.rebuild_output import run_json, status_json, verify_json
from knowport.errors import RebuildError
from knowport.pipelines.rebuild_ports import NotVerified, OnProgress, RebuildProgress, RunReport

if TYPE_CHECKING:
    from knowport.evaluation.labelled import LabelledQuery

routes = router("generations")

Step = Callable[[OnProgress, Reporter], Mapping[str, Any]]
# Jobs of these kinds exclude each other.
STEPS = frozenset({"rebuild", "verify", "activate", "rollback"})


@routes.get("/generations", response_model=schemas.GenerationList, responses=problems())
async def generations(_: Admin, request: Request) -> Response:
    """Every generation, oldest first, and what can be done next."""
    service = service_of(request)
    found = status_json(await service.read(service.kb.rebuild.status))
    job = service.jobs.under_way(STEPS)
    if job is not None:
        found["at_work"] = {
            "job_id": job.job_id,
            "kind": job.kind,
            "state": job.state,
            "progress": job.progress,
        }
    return reply(found)


@routes.post(
    "/generations",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(409, 415)},
)
async def rebuild(_: Admin, request: Request, body: Rebuild) -> Response:
    """Rebuild the index with the settings of the service: build a new generation from the stored
    texts, verify it, and switch to it unless `switch` is false. A rebuild that was interrupted
    goes on where it stopped. Lookups and writes go on meanwhile. The job is done also where the
    verification did not pass; its result says so, and `switch` in it is null."""
    service = service_of(request)
    queries = await _labelled(body, service)

    def run(tell: OnProgress, reporter: Reporter) -> Mapping[str, Any]:
        steps = service.kb.rebuild
        if body.switch:
            try:
                report = steps.run(
                    judge=judge_of(service.kb, queries, tell),
                    force=body.force,
                    sample=body.sample,
                    on_progress=tell,
                    should_stop=reporter.stopped,
                )
            except NotVerified as error:  # the result tells more of it
                if error.run is None:
                    raise
                return run_json(error.run)
            stopped = report.switch is None
        else:
            report = RunReport(steps.start(on_progress=tell, should_stop=reporter.stopped))
            stopped = report.build.stopped
        if stopped:
            raise Stopped(run_json(report))
        return run_json(report)

    return _begin("rebuild", run, service, request)


@routes.post(
    "/generations/verify",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(409, 415)},
)
async def verify(_: Admin, request: Request, body: Verify) -> Response:
    """Prove the generation that is built. The job is done also where it did not pass; its result
    says so."""
    service = service_of(request)
    queries = await _labelled(body, service)

    def run(tell: OnProgress, reporter: Reporter) -> Mapping[str, Any]:
        told = _left_anywhere(tell, reporter)
        judge = judge_of(service.kb, queries, told)
        return verify_json(
            service.kb.rebuild.verify(judge=judge, sample=body.sample, on_progress=told)
        )

    return _begin("verify", run, service, request)


@routes.post(
    "/generations/activate",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(409, 415)},
)
async def activate(_: Admin, request: Request, body: Activate) -> Response:
    """Switch to the generation that is verified, after it has caught up with what was written."""
    service = service_of(request)

    def run(tell: OnProgress, reporter: Reporter) -> Mapping[str, Any]:
        told = _left_anywhere(tell, reporter)
        return asdict(service.kb.rebuild.activate(force=body.force, on_progress=told))

    return _begin("activate", run, service, request)


@routes.post(
    "/generations/rollback",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(409, 415)},
)
async def rollback(_: Admin, request: Request, body: Rollback) -> Response:
    """Switch back to a previous generation, after it has caught up with what was written."""
    service = service_of(request)

    def run(tell: OnProgress, reporter: Reporter) -> Mapping[str, Any]:
        told = _left_anywhere(tell, reporter)
        return asdict(service.kb.rebuild.rollback(body.name, on_progress=told))

    return _begin("rollback", run, service, request)


@routes.post("/generations/abort", response_model=schemas.Dropped, responses=problems(409))
async def abort(_: Admin, request: Request) -> Response:
    """Drop the generation that is being built or waits to be switched to. While a job works on it
    that is refused: cancel the job first."""
    service = service_of(request)
    _refuse_while_at_work(service)
    return reply({"dropped": await service.write(service.kb.rebuild.abort)})


@routes.delete("/generations/{name}", response_model=schemas.Dropped, responses=problems(409))
async def drop(name: str, _: Admin, request: Request) -> Response:
    """Drop a generation that is not the active one, and with it the way back to it."""
    service = service_of(request)
    _refuse_while_at_work(service)
    return reply({"dropped": await service.write(lambda: service.kb.rebuild.drop(name))})


async def _labelled(body: VerifyBody, service: Service) -> tuple[LabelledQuery, ...] | None:
    """The labelled questions of a body. Raises InvalidInput."""
    rows = body.queries
    if rows is None:
        return None

    def read() -> tuple[LabelledQuery, ...]:
        # What measures is not loaded by a service that does not measure.
        from knowport.evaluation.labelled import labelled  # noqa: PLC0415

        return labelled(enumerate(rows, start=1), "queries")

    return await service.read(read)


def _left_anywhere(tell: OnProgress, reporter: Reporter) -> OnProgress:
    """``tell`` for a step that a cancelled job leaves wherever it is."""

    def told(now: RebuildProgress) -> None:
        reporter.go_on()
        tell(now)

    return told


def _refuse_while_at_work(service: Service) -> None:
    """Raises Problem (409) while a job of these is under way."""
    busy = service.jobs.under_way(STEPS)
    if busy is not None:
        raise Problem(
            409,
            RebuildError.code,
            f"A {busy.kind} is {busy.state}, and only one at a time works on the generations.",
            remedy=f"Wait for it (GET /v1/jobs/{busy.job_id}), or cancel it "
            f"(POST /v1/jobs/{busy.job_id}/cancel, or `knowport rebuild abort`).",
            transient=True,
        )


def _begin(kind: str, step: Step, service: Service, request: Request) -> Response:
    """Raises Problem (409) while another job of these is under way."""
    _refuse_while_at_work(service)

    def work(reporter: Reporter) -> Mapping[str, Any]:
        started, failed = time.monotonic(), True
        try:
            done = step(lambda now: reporter.progress(asdict(now)), reporter)
            failed = False
            return done
        except Stopped:
            failed = False
            raise
        finally:
            service.metrics.rebuilt(kind, time.monotonic() - started, failed=failed)

    job = service.jobs.start(kind, work, kb_scope=None, pool=service.upkeep)
    return accepted(job, service, request)
