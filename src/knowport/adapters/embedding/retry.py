"""When and how long to wait before a request is sent again."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

_LONGEST_WAIT = 60.0
_FIRST_WINDOW = 0.5
_WIDEST_WINDOW = 30.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How much one request may cost; times in seconds.

    ``attempt`` bounds one attempt. A retry starts at most ``retry_until`` after the first attempt
    did. By ``total`` everything is over; the last attempt is cut short to that.
    """

    retries: int
    attempt: float
    retry_until: float
    total: float


def wait_before_retry(
    retry: int, retry_after: str | None, *, wall_time: float, rng: random.Random
) -> float:
    """Seconds to wait before retry number ``retry`` (from 0), at most 60.

    As long as the server asked for, plus up to a second, so that its clients do not all come back
    at once; if it asked for nothing, full jitter in a window that doubles with each retry.
    """
    asked = seconds_asked(retry_after, wall_time=wall_time)
    if asked > 0:
        return min(_LONGEST_WAIT, asked + rng.uniform(0.0, 1.0))
    return rng.uniform(0.0, min(_WIDEST_WINDOW, _FIRST_WINDOW * 2**retry))


def seconds_asked(retry_after: str | None, *, wall_time: float) -> float:
    """What a Retry-After header (seconds or an HTTP date) asks for; 0 for none or nonsense.

    ``wall_time`` is the present in seconds since the epoch.
    """
    if retry_after is None:
        return 0.0
    try:
        seconds = float(retry_after)
    except ValueError:
        seconds = _seconds_until(retry_after, wall_time)
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _seconds_until(http_date: str, wall_time: float) -> float:
    try:
        return parsedate_to_datetime(http_date).timestamp() - wall_time
    except (ValueError, OverflowError):
        return 0.0
