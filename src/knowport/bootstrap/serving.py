"""Which generation is served, and how a process follows a switch that another one made.

Everything that a lookup needs of a generation stands in one frozen ``Serving``. A lookup takes it
once, so it never mixes two generations. Nothing is closed at a switch: the connection to the
engine is shared by all generations, and the old collection stays until it is dropped, so lookups
that are under way end as they began.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from knowport.adapters.milvus import MilvusIndex
from knowport.core.calibration import Calibration, Expired
from knowport.core.chunking import ChunkingOptions
from knowport.errors import KnowportError
from knowport.model import Generation, Notice
from knowport.ports import Embedder, Ledger

FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Serving:
    """A generation opened for lookups; without one (before any ingest) there is no index.

    ``embedder`` and ``chunking`` are the generation's own. ``differs`` says how the generation is
    not what the settings ask for, where that makes it read-only; ``recut`` how its chunks are cut
    otherwise, which does not. ``behind`` is why a newer pointer could not be followed, if so.
    """

    generation: Generation | None
    index: MilvusIndex | None
    embedder: Embedder
    chunking: ChunkingOptions
    calibration: Calibration | Expired | None = None
    differs: tuple[str, ...] = ()
    recut: tuple[str, ...] = ()
    behind: tuple[Notice, ...] = field(default=())

    @property
    def name(self) -> str:
        """Name of the generation, '' before any ingest."""
        return self.generation.name if self.generation else ""


class Pointer:
    """The serving in force; safe to use from several threads.

    ``open_`` makes the serving of a generation. It may take a while (a model is loaded), so only
    the thread that notices a switch waits for it; the others go on with what they had.
    """

    def __init__(
        self,
        ledger: Ledger,
        open_: Callable[[Generation], Serving],
        first: Serving,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger, self._open, self._clock = ledger, open_, clock
        self._held = first
        self._seen = clock()
        self._refreshing = threading.Lock()

    @property
    def held(self) -> Serving:
        """What was last seen, however long ago."""
        return self._held

    def current(self) -> Serving:
        """The serving for a lookup, seen in the ledger at most about a second ago.

        A ledger that does not answer, or a new generation that cannot be opened here, leaves the
        old one in place, with a notice that says so.
        """
        if self._clock() - self._seen > FRESH_SECONDS and self._refreshing.acquire(blocking=False):
            try:
                self._follow()
            except KnowportError as error:
                notice = Notice(
                    "generation_not_followed",
                    f"Answered from generation {self._held.name!r} as it was last known, because "
                    f"the ledger's pointer could not be followed: {error.message}",
                )
                self._held = replace(self._held, behind=(notice,))
            finally:
                self._seen = self._clock()
                self._refreshing.release()
        return self._held

    def refresh(self) -> Serving:
        """Ask the ledger now. Raises LedgerError, and IndexMismatch or EngineError where the
        active generation cannot be opened."""
        with self._refreshing:
            self._follow()
            self._seen = self._clock()
            return self._held

    def change(self, change: Callable[[Serving], Serving]) -> None:
        """Replace what is held, while nobody else does."""
        with self._refreshing:
            self._held = change(self._held)

    def _follow(self) -> None:
        active = self._ledger.active_generation()
        if active is None or active.name == self._held.name:
            if self._held.behind:
                self._held = replace(self._held, behind=())
            return
        self._held = self._open(active)
