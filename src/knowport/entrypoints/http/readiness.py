"""Whether a lookup works, asked again and again in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from knowport.entrypoints.http.pools import Pool
from knowport.entrypoints.http.problems import Problem, as_problem

_LOG = structlog.get_logger("knowport.http")
# Seconds between two probes, before the first that worked and after.
WAITING, READY = 0.5, 5.0


class Readiness:
    """``probe`` blocks, and raises where lookups do not work."""

    def __init__(self, pool: Pool, probe: Callable[[], None]) -> None:
        self._pool, self._probe = pool, probe
        self.problem: Problem | None = Problem(
            503,
            "not_ready",
            "The service is starting: no lookup has worked yet.",
            remedy="Ask again in a moment.",
            transient=True,
        )

    @property
    def ready(self) -> bool:
        return self.problem is None

    async def keep(self) -> None:
        """Probe for ever."""
        while True:
            started = time.monotonic()
            before = self.problem
            try:
                await self._pool.run(self._probe)
            except Exception as error:  # noqa: BLE001  # whatever it is, lookups do not work
                cause = as_problem(error)
                self.problem = Problem(
                    503,
                    "not_ready",
                    f"A lookup does not work: {cause.detail}",
                    remedy=cause.remedy,
                    transient=True,
                )
                if before is None or before.detail != self.problem.detail:
                    _LOG.warning("not_ready", code=cause.code, detail=cause.detail)
            else:
                self.problem = None
                if before is not None:
                    took = round((time.monotonic() - started) * 1000)
                    _LOG.info("ready", milliseconds=took)
            await asyncio.sleep(READY if self.ready else WAITING)
