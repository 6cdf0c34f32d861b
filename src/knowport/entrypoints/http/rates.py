"""How many requests a key may send: a token bucket for each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from knowport.entrypoints.http.problems import Problem


class RateLimiter:
    """``per_second`` requests of a key in the long run, ``burst`` of them at once.

    To be used from one thread. With ``per_second`` 0 there is no limit.
    """

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key_id: str) -> None:
        """Count one request. Raises Problem (429) that says how long to wait."""
        if not self._per_second or not key_id:
            return
        now = self._clock()
        left, since = self._buckets.get(key_id, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        if left < 1:
            self._buckets[key_id] = (left, now)
            wait = max(1, math.ceil((1 - left) / self._per_second))
            raise Problem(
                429,
                "rate_limited",
                f"This key may send {self._per_second:g} requests a second.",
                remedy=f"Wait {wait} s, or raise server.rate_per_second.",
                transient=True,
                headers={"Retry-After": str(wait)},
            )
        self._buckets[key_id] = (left - 1, now)
