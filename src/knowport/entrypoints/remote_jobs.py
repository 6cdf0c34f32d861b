"""Commands that let a running service do long work, and wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import typer

from knowport.entrypoints.ingest_output import StopOnInterrupt
from knowport.entrypoints.options import EXIT_INTERRUPTED, err
from knowport.errors import KnowportError

if TYPE_CHECKING:
    from knowport.client import Client
    from knowport.client.values import Job

_EVERY = 0.3  # seconds between two looks at a job


class CancelOnInterrupt(StopOnInterrupt):
    """The first Ctrl-C cancels the job and waits for its end; the second does not wait."""

    ASKED = (
        "Cancelling the job; it stops where nothing is half done. Ctrl-C again not to wait for it."
    )
    LEFT = "Interrupted. The job is cancelled and stops where nothing is half done."


def finished(
    service: Client,
    begin: Callable[[], Job],
    on_progress: Callable[[Mapping[str, Any]], None],
) -> Mapping[str, Any]:
    """What a job did, as JSON values, when it has ended.

    Raises ServiceError where it failed, and Exit (130) where it was cancelled, by Ctrl-C or by
    somebody else, and has nothing to tell.
    """
    with CancelOnInterrupt() as stop:
        job = begin()
        try:
            done = service.wait(
                job.job_id, on_progress=on_progress, should_stop=stop.asked, every=_EVERY
            )
        except KnowportError as error:
            if error.code == "service_unavailable":
                kept = "What was done is kept: then run the same again."
                error.remedy = f"{error.remedy} {kept}".strip()
            raise
        except KeyboardInterrupt:
            service.cancel(job.job_id)  # the second Ctrl-C may come before the first was passed on
            raise
    if done.result is None:
        err.print(f"Job {job.job_id} was cancelled.", markup=False)
        raise typer.Exit(EXIT_INTERRUPTED)
    return done.result


def cancel(service: Client, *, kinds: Collection[str]) -> None:
    """Cancel the jobs of some kinds that have not ended, and wait until they have."""
    for job in service.jobs():
        if job.kind in kinds and job.state in ("queued", "running"):
            err.print(f"Cancelling job {job.job_id} ({job.kind}).", markup=False)
            service.cancel(job.job_id)
            while not service.job(job.job_id).ended:
                time.sleep(_EVERY)
