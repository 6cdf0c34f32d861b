"""Bodies of requests that look after the index: rebuilds and audits. All may be left out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Body as OfBody
from pydantic import Field

from knowport.entrypoints.http.schemas import Body
from knowport.pipelines.audit_active import DEFAULT_SAMPLE
from knowport.pipelines.rebuild_verify import SAMPLE


class VerifyBody(Body):
    sample: int = Field(SAMPLE, ge=1, description="How many chunks to search for.")
    queries: list[dict[str, Any]] | None = Field(
        None,
        description="Labelled questions, as the lines that `knowport calibrate` reads: the new "
        "generation must not do worse with them.",
        examples=[[{"_id": "q1", "text": "ERROR 1205", "documents": ["mysql/lock-wait.md"]}]],
    )


class RebuildBody(VerifyBody):
    switch: bool = Field(
        True, description="Verify the new generation and switch to it; else it is only built."
    )
    force: bool = Field(False, description="Switch although it did not pass; this is recorded.")


class ActivateBody(Body):
    force: bool = Field(False, description="Take one that is not verified; this is recorded.")


class RollbackBody(Body):
    name: str | None = Field(
        None, description="A previous generation; else the one that was active before."
    )


class AuditBody(Body):
    repair: bool = Field(False, description="Mend what is wrong from the ledger's texts.")
    sample: Literal["all"] | Annotated[int, Field(ge=0)] = Field(
        DEFAULT_SAMPLE, description="How many chunks to search for by their vectors and words."
    )


Verify = Annotated[VerifyBody, OfBody(default_factory=VerifyBody)]
Rebuild = Annotated[RebuildBody, OfBody(default_factory=RebuildBody)]
Activate = Annotated[ActivateBody, OfBody(default_factory=ActivateBody)]
Rollback = Annotated[RollbackBody, OfBody(default_factory=RollbackBody)]
Audit = Annotated[AuditBody, OfBody(default_factory=AuditBody)]
