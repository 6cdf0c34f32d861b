"""Lookups in the new generation and in the active one, for whoever judges between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from knowport.errors import ConfigurationError, EngineError, KnowportError
from knowport.model import LookupResult
from knowport.pipelines.rebuild_ports import Judge, Lookup, Target, Verdict
from knowport.pipelines.rebuild_verify import behind
from knowport.ports import Ledger


class Side:
    """Lookups in one of the two.

    ``behind`` gives the ids of the documents that both do not hold in one version: what is looked
    up of them cannot be compared. ``failures`` are errors that say that it cannot be searched.
    """

    def __init__(self, look_up: Lookup, behind: Callable[[], frozenset[str]]) -> None:
        self._look_up, self.behind = look_up, behind
        self.failures: list[KnowportError] = []

    def __call__(self, query: str) -> LookupResult:
        try:
            return self._look_up(query)
        except (ConfigurationError, EngineError) as error:
            self.failures.append(error)
            raise


def judged(
    judge: Judge, active: Lookup, new: Lookup, target: Target, ledger: Ledger
) -> Verdict | KnowportError:
    """What the judge says, or the error that keeps it from searching the active generation, while
    the engine answers for the new one. Raises what else it raises."""
    differing = partial(behind, ledger, target.name)
    old = Side(active, differing)
    try:
        return judge(old, Side(new, differing))
    except (ConfigurationError, EngineError) as error:
        if not any(error is known for known in old.failures):
            raise
        target.index.count()  # raises where the engine is at fault
        return error
