"""Blocking calls in a bounded number of threads, and the one knowledge base they share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread

from knowport.knowledge_base import KnowledgeBase

T = TypeVar("T")


class Threads:
    """At most ``limit`` calls run at once, the others wait.

    A call that waits can be cancelled. One that runs cannot, and whoever cancels its request waits
    for it, else the bound would not hold.
    """

    def __init__(self, limit: int) -> None:
        self._limiter = anyio.CapacityLimiter(limit)

    async def __call__(self, call: Callable[[], T]) -> T:
        return await to_thread.run_sync(call, limiter=self._limiter)


class OpenedOnce:
    """A knowledge base that is opened by whoever asks first, while others wait for it.

    A failure to open is raised to whoever asked; the next one tries again, as the reason may have
    gone by then (another process held the embedded file).
    """

    def __init__(self, open_it: Callable[[], KnowledgeBase]) -> None:
        self._open_it = open_it
        self._lock = threading.Lock()
        self._kb: KnowledgeBase | None = None

    def __call__(self) -> KnowledgeBase:
        with self._lock:
            if self._kb is None:
                self._kb = self._open_it()
            return self._kb

    def close(self) -> None:
        with self._lock:
            if self._kb is not None:
                self._kb.close()
                self._kb = None
