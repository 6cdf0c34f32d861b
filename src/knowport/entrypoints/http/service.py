"""What the routes stand on: a knowledge base, bounded threads, jobs and figures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import structlog
from fastapi import Request

from knowport.core.redaction import Redactor
from knowport.entrypoints.http.access import Caller
from knowport.entrypoints.http.jobs import Job, Jobs
from knowport.entrypoints.http.metrics import Metrics
from knowport.entrypoints.http.observe import note_problem
from knowport.entrypoints.http.pools import Pool
from knowport.entrypoints.http.problems import Problem, as_problem
from knowport.entrypoints.http.readiness import Readiness
from knowport.errors import KnowportError, UnknownDocument
from knowport.knowledge_base import KnowledgeBase
from knowport.model import Document, DocumentInfo, LookupResult, SearchMode
from knowport.pipelines.replace import unknown_document
from knowport.settings import secrets_of
from knowport.settings.server import ServerSettings

_LOG = structlog.get_logger("knowport.http")
T = TypeVar("T")
# A key that was made or revoked is known to every process after so many seconds.
KEYS_EVERY = 1.0


class Service:
    """One service over one knowledge base. To be made and used on the event loop's thread."""

    def __init__(self, kb: KnowledgeBase, *, loopback: bool) -> None:
        self.kb = kb
        self.settings: ServerSettings = kb.settings.server
        self.loopback = loopback
        self.draining = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.redact = Redactor(secrets_of(kb.settings))
        self.metrics = Metrics()
        chosen = self.settings
        self.reads = Pool(
            "lookups",
            threads=chosen.lookup_threads,
            queue=chosen.lookup_queue,
            timeout=chosen.request_timeout,
        )
        self.writes = Pool(
            "writes",
            threads=chosen.write_threads,
            queue=chosen.write_queue,
            timeout=chosen.write_timeout,
        )
        self._job_pool = Pool("jobs", threads=1, queue=chosen.job_queue, timeout=0)
        # Rebuilds may take hours, and ingests go on. Audits wait for them: a switch ends an audit.
        self.upkeep = Pool("upkeep", threads=1, queue=chosen.job_queue, timeout=0)
        # Apart from the others, so that these never wait behind requests.
        self._background = Pool("background", threads=2, queue=8, timeout=chosen.request_timeout)
        self.jobs = Jobs(self._job_pool, self._job_failed)
        self.readiness = Readiness(self._background, self._probe)
        self.metrics.watch_pools([self.reads, self.writes, self._job_pool, self.upkeep])
        self.metrics.watch(
            {
                "ready": lambda: float(self.readiness.ready),
                "jobs_running": lambda: self.jobs.count("running"),
                "jobs_queued": lambda: self.jobs.count("queued"),
            },
            "State of the service.",
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep readiness and access keys fresh; at the end, finish what was begun."""
        self._loop = asyncio.get_running_loop()
        tasks = [
            asyncio.create_task(self.readiness.keep()),
            asyncio.create_task(self._keep_keys()),
        ]
        try:
            yield
        finally:
            self.drain()
            for task in tasks:
                task.cancel()
            jobs = (self._job_pool, self.upkeep)
            for pool in (*jobs, self.writes, self.reads, self._background):
                await asyncio.to_thread(pool.close)

    def drain_soon(self) -> None:
        """``drain`` on the event loop; for a handler of signals."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.drain)

    def drain(self) -> None:
        """Get ready to end: tell it in replies, and ask jobs to stop."""
        self.draining = True
        self.jobs.stop_all()

    async def lookup(
        self,
        caller: Caller,
        query: str,
        *,
        category: str | None,
        mode: SearchMode | None,
        kb_scope: str | None = None,
    ) -> LookupResult:
        """A lookup in the caller's scope, counted. Raises Problem and KnowportError."""
        scope = caller.scope(kb_scope, self.kb.settings.retrieval.kb_scope)
        result = await self.reads.run(
            lambda: self.kb.run_lookup(query, category=category, kb_scope=scope, mode=mode)
        )
        self.metrics.looked_up(result)
        return result

    def scope(self, caller: Caller, asked: str | None = None) -> str:
        """The scope that a request of the caller is about; see ``Caller.scope``."""
        return caller.scope(asked, self.kb.settings.retrieval.kb_scope)

    def document(self, doc_id: str, scope: str) -> tuple[DocumentInfo, Document]:
        """A document of that scope; raises UnknownDocument, also where it stands in another."""
        info, document = self.kb.document(doc_id)
        if info.kb_scope != scope:
            raise unknown_document(doc_id)
        return info, document

    def refuse_taken(self, doc_id: str, scope: str) -> None:
        """Raises Problem (409) for an id that another scope has, without saying which."""
        try:
            info, _ = self.kb.document(doc_id)
        except UnknownDocument:
            return
        if info.kb_scope != scope:
            raise Problem(
                409,
                "id_not_free",
                f"The id {doc_id!r} cannot be used here.",
                remedy="Choose another id, for instance one that begins with another source.",
            )

    async def read(self, call: Callable[[], T]) -> T:
        """Run a blocking read; raises Problem where it cannot or takes too long."""
        return await self.reads.run(call)

    async def write(self, call: Callable[[], T]) -> T:
        """Run a blocking write likewise."""
        return await self.writes.run(call)

    def _probe(self) -> None:
        self.kb.run_lookup("readiness probe", traced=False)

    def _job_failed(self, job: Job, error: Exception) -> None:
        note_problem(as_problem(error), error, self.metrics)
        _LOG.warning("job_failed", job_id=job.job_id, kind=job.kind, error=type(error).__name__)

    async def _keep_keys(self) -> None:
        while True:
            await asyncio.sleep(KEYS_EVERY)
            try:
                await self._background.run(self.kb.access.refresh)
            except KnowportError as error:
                # The keys of before stay in force: nobody is let in who was not.
                _LOG.error("keys_not_read", code=error.code, detail=error.message)


def service_of(request: Request) -> Service:
    """The service that a request reached."""
    service: Service = request.app.state.service
    return service
