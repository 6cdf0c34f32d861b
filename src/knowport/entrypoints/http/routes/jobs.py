"""Long work: started here, watched and cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from knowport.entrypoints import wire
from knowport.entrypoints.http import schemas
from knowport.entrypoints.http.access import Reader, Writer
from knowport.entrypoints.http.jobs import Job, Reporter, Stopped
from knowport.entrypoints.http.problems import Problem
from knowport.entrypoints.http.replies import problems, reply, router
from knowport.entrypoints.http.service import Service, service_of

routes = router("jobs")

JOB = {
    "job_id": "job_0f5e1c3a9b7d2468",
    "kind": "ingest",
    "state": "running",
    "created_at": "2026-01-31T09:00:00.000+00:00",
    "started_at": "2026-01-31T09:00:00.004+00:00",
    "ended_at": "",
    "progress": {
        "bytes_done": 52_340,
        "bytes_total": 180_000,
        "files_done": 12,
        "files_total": 40,
        "chunks_done": 130,
        "path": "/srv/handbook/mysql/lock-wait.md",
    },
    "result": None,
    "problem": None,
}
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "Begun, or waiting for its turn. Location names the job.",
        "content": {"application/json": {"example": JOB}},
    }
}


@routes.post(
    "/ingest",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(404, 415)},
)
async def ingest(body: schemas.IngestBody, caller: Writer, request: Request) -> Response:
    """Bring the files of a folder on the service's machine into the index, as a job. Only below
    one of `server.ingest_roots`; without any it is off."""
    service = service_of(request)
    scope = service.scope(caller, body.kb_scope)
    root = await service.read(lambda: _allowed(body.path, service))

    def work(reporter: Reporter) -> Mapping[str, Any]:
        report = service.kb.ingest(
            root,
            source=body.source,
            category=body.category,
            category_from_folder=body.category_from_folder,
            kb_scope=scope,
            include=body.include,
            exclude=body.exclude,
            force=body.force,
            delete_missing=body.delete_missing,
            force_delete=body.force_delete,
            dry_run=body.dry_run,
            on_progress=lambda now: reporter.progress(asdict(now)),
            should_stop=reporter.stopped,
        )
        if not body.dry_run:
            service.metrics.ingested(report)
        done = wire.report_json(report)
        if report.interrupted:
            raise Stopped(done)
        return done

    return accepted(service.jobs.start("ingest", work, kb_scope=scope), service, request)


def _allowed(path: str, service: Service) -> Path:
    """The real path of what may be ingested, links resolved. Raises Problem (403)."""
    roots = service.settings.ingest_roots
    if not roots:
        raise Problem(
            403,
            "ingest_off",
            "This service reads no folders of its machine.",
            remedy="Set server.ingest_roots, or send documents with PUT /v1/documents.",
        )
    try:
        real = Path(path).resolve(strict=True)
    except (OSError, ValueError):  # away, a loop of links, or a name that cannot be one
        real = None
    if real is None or not any(real.is_relative_to(root.resolve()) for root in roots):
        # The same for what is not there: else it would tell which files there are.
        raise Problem(
            403,
            "path_not_allowed",
            "There is nothing of that path below the folders that may be read.",
            remedy="Name a file or folder below one of server.ingest_roots.",
        )
    return real


@routes.get("/jobs", response_model=schemas.JobList, responses=problems())
async def jobs(caller: Reader, request: Request) -> Response:
    """The jobs of this process that the key may see, in order of creation."""
    service = service_of(request)
    seen = service.jobs.seen_by(caller)
    return reply({"jobs": [job_json(job, service, request) for job in seen]})


@routes.get("/jobs/{job_id}", response_model=schemas.JobView, responses=problems(404))
async def job(job_id: str, caller: Reader, request: Request) -> Response:
    """One job: how far it is, or what it did."""
    service = service_of(request)
    return reply(job_json(service.jobs.get(job_id, caller), service, request))


@routes.post(
    "/jobs/{job_id}/cancel",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(404)},
)
async def cancel(job_id: str, caller: Writer, request: Request) -> Response:
    """Cancel a job. It stops where nothing is half done; what it did until then stays."""
    service = service_of(request)
    found = service.jobs.get(job_id, caller)
    service.jobs.cancel(found)
    return accepted(found, service, request)


def _asked_for(job_id: str, caller: Reader, request: Request) -> Job:
    return service_of(request).jobs.get(job_id, caller)


@routes.get(
    "/jobs/{job_id}/events",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "`progress` events, then one named after the state that it ended in. "
            "The data of each is the job.",
        },
        **problems(404),
    },
)
async def events(
    found: Annotated[Job, Depends(_asked_for)], request: Request
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events of a job, until it has ended."""
    service = service_of(request)
    async for version in found.versions():
        yield ServerSentEvent(
            event="progress" if found.state in {"queued", "running"} else found.state,
            id=str(version),
            data=job_json(found, service, request),
        )


def accepted(found: Job, service: Service, request: Request) -> Response:
    """202 with the job and where it can be watched."""
    return reply(
        job_json(found, service, request),
        status=202,
        headers={"Location": f"/v1/jobs/{found.job_id}"},
    )


def job_json(found: Job, service: Service, request: Request) -> dict[str, Any]:
    """A job as JSON values."""
    problem = found.problem
    return {
        "job_id": found.job_id,
        "kind": found.kind,
        "state": found.state,
        "created_at": found.created_at,
        "started_at": found.started_at,
        "ended_at": found.ended_at,
        "progress": found.progress,
        "result": found.result,
        "problem": None
        if problem is None
        else problem.document(request.state.request_id, service.redact),
    }
