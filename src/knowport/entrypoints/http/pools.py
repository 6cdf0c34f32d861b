"""Blocking work in bounded threads, so that the event loop always answers.

What is beyond the threads waits in a bounded queue; what is beyond the queue is turned away at
once, because a service that takes everything answers nobody.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from knowport.entrypoints.http.problems import Problem

T = TypeVar("T")


class Pool:
    """``threads`` calls at once and ``queue`` more that wait; ``timeout`` seconds for each."""

    def __init__(self, name: str, *, threads: int, queue: int, timeout: float) -> None:
        self.name = name
        self.threads = threads
        self._room = threads + queue
        self._timeout = timeout
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"knowport-{name}")
        self._guard = threading.Lock()
        self._held = 0
        self.refused = 0

    @property
    def held(self) -> int:
        """Calls that run or wait. One that was given up still counts until its thread is free."""
        return self._held

    async def run(self, call: Callable[[], T]) -> T:
        """What ``call`` returns or raises.

        Raises Problem: 503 where too many wait, 504 where it takes too long. A call that waits is
        then dropped; one that runs goes on to its end, because no thread can be stopped.
        """
        future = self.submit(call)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if not limit.expired():
                raise
            future.cancel()
            raise Problem(
                504,
                "timeout",
                f"It took longer than {self._timeout:g} s.",
                remedy="Try again later. A write may still come to its end.",
                transient=True,
            ) from None

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Start a call without waiting for it. Raises Problem (503) where too many wait."""
        with self._guard:
            if self._held >= self._room:
                self.refused += 1
                raise Problem(
                    503,
                    "overloaded",
                    f"Too many requests wait already ({self.name}).",
                    remedy="Try again later, or raise the threads or the queue in [server].",
                    transient=True,
                )
            self._held += 1
        try:
            # The context carries the request id for logs, and the span that is open.
            future = self._executor.submit(contextvars.copy_context().run, call)
        except BaseException:
            self._free()
            raise
        future.add_done_callback(self._free)
        return future

    def _free(self, _: Future[Any] | None = None) -> None:
        with self._guard:
            self._held -= 1

    def close(self) -> None:
        """Wait for what runs; what waits is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)
