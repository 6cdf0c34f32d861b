"""A write that failed for a passing reason is done again, a few times."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from knowport.errors import GenerationChanged, KnowportError, LedgerBusy

T = TypeVar("T")

RETRIES = 4
# Seconds within which the first retry begins; each window is twice the one before.
FIRST_WINDOW = 0.5


def with_retries(
    call: Callable[[], T],
    *,
    sleep: Callable[[float], object] = time.sleep,
    rng: random.Random | None = None,
) -> T:
    """What ``call`` returns, tried again after a transient error with a growing, drawn pause.

    The last error is raised as it is; at once one that waiting here does not mend: a generation
    that was switched, and a ledger that has been waited for already.
    """
    rng = rng or random.Random()
    for retry in range(RETRIES):
        try:
            return call()
        except KnowportError as error:
            if not error.transient or isinstance(error, GenerationChanged | LedgerBusy):
                raise
        window = FIRST_WINDOW * 2**retry
        sleep(rng.uniform(window / 2, window))
    return call()
