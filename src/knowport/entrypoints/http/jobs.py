"""Long work: started by one request, watched and cancelled by others.

Jobs live in this process: what they did is in the index, but a restart forgets that they were.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from knowport.entrypoints.http.access import Caller
from knowport.entrypoints.http.pools import Pool
from knowport.entrypoints.http.problems import Problem, as_problem

JobState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: frozenset[JobState] = frozenset({"done", "failed", "cancelled"})
# Of jobs that have ended the last ones are remembered.
KEPT = 100
# Progress is told at most so often, in seconds.
TELL_EVERY = 0.2


class Job:
    """One piece of long work. Its state changes on the event loop only."""

    def __init__(self, kind: str, kb_scope: str | None) -> None:
        self.job_id = f"job_{secrets.token_hex(8)}"
        self.kind = kind
        self.kb_scope = kb_scope
        self.state: JobState = "queued"
        self.created_at, self.started_at, self.ended_at = _now(), "", ""
        self.progress: Mapping[str, Any] | None = None
        self.result: Mapping[str, Any] | None = None
        self.problem: Problem | None = None
        self.version = 0
        self.stop = threading.Event()
        self._guard, self._begun = threading.Lock(), False
        self._changed = asyncio.Event()

    def begin(self) -> bool:
        """Whether its work is to begin; from the thread of the job."""
        with self._guard:
            self._begun = not self.stop.is_set()
            return self._begun

    def ask_to_stop(self) -> bool:
        """Returns whether its work will never begin."""
        with self._guard:
            self.stop.set()
            return not self._begun

    def change(self, **values: Any) -> None:
        """Set attributes and wake whoever watches."""
        for name, value in values.items():
            setattr(self, name, value)
        self.version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def versions(self) -> AsyncIterator[int]:
        """The version now and each newer one, until the job has ended; some may be left out."""
        seen = -1
        while True:
            if self.version == seen:
                await self._changed.wait()
            seen = self.version
            yield seen
            if self.state in ENDED and self.version == seen:
                return


class Stopped(Exception):
    """Raised by work that was stopped; ``result`` is what it did until then, if that can be
    told."""

    def __init__(self, result: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.result = result


class Reporter:
    """What the work of a job is given: a way to tell its progress, and to be stopped."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self._job, self._loop = job, loop
        self._told_at = -TELL_EVERY

    def progress(self, values: Mapping[str, Any]) -> None:
        """Tell how far it is, as JSON values; from the thread of the job."""
        now = time.monotonic()
        if now - self._told_at >= TELL_EVERY:
            self._told_at = now
            self.change(progress=values)

    def stopped(self) -> bool:
        """Whether the job was cancelled, or the service is to end."""
        return self._job.stop.is_set()

    def go_on(self) -> None:
        """Raises Stopped where it is to stop; for work that can be left anywhere."""
        if self.stopped():
            raise Stopped

    def change(self, **values: Any) -> None:
        self._loop.call_soon_threadsafe(lambda: self._job.change(**values))


Work = Callable[[Reporter], Mapping[str, Any]]
"""Blocking; returns the result as JSON values. Work that was stopped before its end raises Stopped;
what comes back is whole, whatever was asked of it meanwhile."""


class Jobs:
    """The jobs of one service, in ``pool`` unless a job is given another one."""

    def __init__(self, pool: Pool, on_error: Callable[[Job, Exception], None]) -> None:
        self._pool = pool
        self._on_error = on_error
        self._jobs: dict[str, Job] = {}

    def start(
        self, kind: str, work: Work, *, kb_scope: str | None, pool: Pool | None = None
    ) -> Job:
        """Queue a job; ``kb_scope`` is the one it belongs to, None for all, which is there for
        admins only. Raises Problem (503) where too many wait."""
        job = Job(kind, kb_scope)
        reporter = Reporter(job, asyncio.get_running_loop())
        (pool or self._pool).submit(lambda: self._run(job, work, reporter))
        self._jobs[job.job_id] = job
        ended = [name for name, one in self._jobs.items() if one.state in ENDED]
        for name in ended[:-KEPT]:
            del self._jobs[name]
        return job

    def _run(self, job: Job, work: Work, reporter: Reporter) -> None:
        if not job.begin():
            return
        reporter.change(state="running", started_at=_now())
        try:
            result = work(reporter)
        except Stopped as stopped:
            reporter.change(state="cancelled", result=stopped.result, ended_at=_now())
        except Exception as error:  # noqa: BLE001  # it is told in the job, and logged
            self._on_error(job, error)
            reporter.change(state="failed", problem=as_problem(error), ended_at=_now())
        else:
            reporter.change(state="done", result=result, ended_at=_now())

    def get(self, job_id: str, caller: Caller) -> Job:
        """Raises Problem (404) for a job that is not there for the caller."""
        job = self._jobs.get(job_id)
        if job is None or not _sees(caller, job):
            raise Problem(
                404,
                "unknown_job",
                f"There is no job {job_id!r}.",
                remedy="GET /v1/jobs lists those of this process; a restart forgets them.",
            )
        return job

    def cancel(self, job: Job) -> None:
        """Ask a job to stop where nothing is half done; one that waits ends at once."""
        if job.ask_to_stop() and job.state == "queued":
            job.change(state="cancelled", ended_at=_now())

    def seen_by(self, caller: Caller) -> list[Job]:
        """Every job that is there for the caller, in order of creation."""
        return [job for job in self._jobs.values() if _sees(caller, job)]

    def under_way(self, kinds: Collection[str]) -> Job | None:
        """The first job of those kinds that has not ended."""
        jobs = self._jobs.values()
        return next((job for job in jobs if job.kind in kinds and job.state not in ENDED), None)

    def count(self, state: JobState) -> int:
        return sum(job.state == state for job in self._jobs.values())

    def stop_all(self) -> None:
        """Cancel every job that has not ended."""
        for job in self._jobs.values():
            if job.state not in ENDED:
                self.cancel(job)


def _sees(caller: Caller, job: Job) -> bool:
    # What concerns all scopes names documents of all.
    return caller.role == "admin" if job.kb_scope is None else caller.sees(job.kb_scope)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
