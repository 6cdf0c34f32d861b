"""Long work in a service: begun, watched and cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import quote

from pydantic import TypeAdapter

from knowport.client.errors import error_of
from knowport.client.reading import given, value_of
from knowport.client.transport import Call, Transport
from knowport.client.values import Job

_JOB = TypeAdapter(Job)
_JOBS = TypeAdapter(dict[str, list[Job]])


class LongWork:
    """The methods of a client that begin jobs or ask after them."""

    _transport: Transport

    def ingest(
        self,
        path: str,
        *,
        source: str | None = None,
        category: str | None = None,
        category_from_folder: bool = False,
        kb_scope: str | None = None,
        force: bool = False,
    ) -> Job:
        """Begin to ingest a folder of the service's machine, below one of its ingest roots."""
        body = given(
            path=path,
            source=source,
            category=category,
            category_from_folder=category_from_folder,
            kb_scope=kb_scope,
            force=force,
        )
        return self._job(Call("POST", "/v1/ingest", body=body, repeatable=False))

    def audit(self, *, repair: bool = False, sample: int | Literal["all"] | None = None) -> Job:
        """Begin to hold the ledger and the index against each other, with an admin's key.

        ``sample`` chunks are also searched for. The job's result lists what is wrong; with
        ``repair`` that is mended, and the result is what was found ``before``, what was done, and
        what is found ``after``.
        """
        body = given(repair=repair, sample=sample)
        return self._job(Call("POST", "/v1/audit", body=body, repeatable=False))

    def jobs(self) -> list[Job]:
        """The jobs that the key may see, in order of creation."""
        return value_of(_JOBS, self._transport.send(Call("GET", "/v1/jobs")))["jobs"]

    def job(self, job_id: str) -> Job:
        return self._job(Call("GET", f"/v1/jobs/{quote(job_id, safe='')}"))

    def cancel(self, job_id: str) -> Job:
        """Ask a job to stop; what it did until then stays."""
        return self._job(Call("POST", f"/v1/jobs/{quote(job_id, safe='')}/cancel"))

    def wait(
        self,
        job_id: str,
        *,
        on_progress: Callable[[Mapping[str, Any]], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
        every: float = 0.5,
    ) -> Job:
        """The job when it has ended, asked for every so many seconds; cancelled where
        ``should_stop`` says so. Raises ServiceError also where the job failed."""
        cancelled = False
        while True:
            if not cancelled and should_stop():
                self.cancel(job_id)
                cancelled = True
            job = self.job(job_id)
            if job.progress is not None:
                on_progress(job.progress)
            if job.problem is not None:
                raise error_of(int(job.problem.get("status", 500)), job.problem)
            if job.ended:
                return job
            time.sleep(every)

    def _job(self, call: Call) -> Job:
        return value_of(_JOB, self._transport.send(call))
