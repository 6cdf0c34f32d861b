"""Audits: ledger and index held against each other.

They concern every scope, so they take an admin's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import Request, Response

from knowport.entrypoints.audit_output import audit_json, repair_json
from knowport.entrypoints.http import schemas
from knowport.entrypoints.http.access import Admin
from knowport.entrypoints.http.jobs import Reporter
from knowport.entrypoints.http.replies import problems, router
from knowport.entrypoints.http.routes.jobs import ACCEPTED, accepted
from knowport.entrypoints.http.service import service_of
from knowport.entrypoints.http.upkeep_schemas import Audit
from knowport.pipelines.audit import AuditProgress

routes = router("audits")


@routes.post(
    "/audit",
    status_code=202,
    response_model=schemas.JobView,
    responses={**ACCEPTED, **problems(415)},
)
async def audit(_: Admin, request: Request, body: Audit) -> Response:
    """Hold the ledger and the index against each other, both ways and in all scopes, as a job; with
    `repair` mend what is found and look again. The job is done also where something is wrong; its
    result says what. Lookups and writes go on meanwhile."""
    service = service_of(request)
    sample = None if body.sample == "all" else body.sample

    def work(reporter: Reporter) -> Mapping[str, Any]:
        def tell(now: AuditProgress) -> None:
            reporter.go_on()  # a document that is mended is whole by then
            reporter.progress(asdict(now))

        if body.repair:
            return repair_json(service.kb.repair(sample=sample, on_progress=tell))
        return audit_json(service.kb.audit(sample=sample, on_progress=tell))

    job = service.jobs.start("audit", work, kb_scope=None, pool=service.upkeep)
    return accepted(job, service, request)
