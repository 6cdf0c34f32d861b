"""What a rebuild needs from the world, and the values that its steps speak in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from knowport.core.chunking import ChunkingOptions
from knowport.core.mismatch import REBUILD
from knowport.errors import RebuildError
from knowport.model import Generation, LookupResult, Metadata
from knowport.pipelines.replace import Index
from knowport.ports import Embedder, Ledger


class Collection(Index, Protocol):
    """A generation's collection, whether it is there or not."""

    def exists(self) -> bool: ...

    def create(self) -> None:
        """Make it and load it, as far as that is missing; rows that are there stay."""
        ...

    def drop(self) -> None: ...

    def prove_analyzer(self) -> None:
        """Raises EngineError where the engine does not find words as it should."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """A generation that can be filled: its collection and all that its rows are made with."""

    generation: Generation
    index: Collection
    embedder: Embedder
    chunking: ChunkingOptions

    @property
    def name(self) -> str:
        return self.generation.name


Lookup: TypeAlias = Callable[[str], LookupResult]
"""Looks a query up in one generation, in the configured scope and mode; leaves no trace."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says: why the new generation must not be switched to (nothing: it may), and
    figures for the report, as JSON values."""

    failures: tuple[str, ...]
    report: Metadata


Judge: TypeAlias = Callable[[Lookup, Lookup], Verdict]
"""Compares lookups in the active generation, the first, with those in the new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPorts:
    """``wanted`` makes the generation that the settings ask for of a name and a collection's name,
    which begins with ``prefix``. ``target`` opens a generation for writing and raises
    IndexMismatch where its embedder is not at hand. ``lookup`` looks up in a generation.
    ``switched`` lets this process and outside readers follow the ledger's pointer and returns what
    of it failed, or ''; ``outside`` does the same for outside readers alone.
    ``collections`` are those in the engine that look like generations of this knowledge base, and
    ``drop_collection`` drops one of them.
    """

    ledger: Ledger
    prefix: str
    wanted: Callable[[str, str], Generation]
    target: Callable[[Generation], Target]
    collection: Callable[[Generation], Collection]
    lookup: Callable[[Generation], Lookup]
    switched: Callable[[], str]
    outside: Callable[[], str]
    collections: Callable[[], Sequence[str]]
    drop_collection: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far a step is. ``done`` and ``total`` count chunks as the active generation has them
    for ``build``, rows or chunks for the others; ``hits`` and ``misses`` count vectors that came
    from the cache and that were made."""

    step: Literal["build", "compare", "search", "judge", "switch"]
    done: int
    total: int
    hits: int = 0
    misses: int = 0


OnProgress: TypeAlias = Callable[[RebuildProgress], None]


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What was written to a generation: documents, chunks, vectors from the cache and made anew.
    ``stopped`` before it was whole."""

    generation: str
    documents: int
    removed: int
    chunks: int
    hits: int
    misses: int
    seconds: float
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found; ``failures`` are sentences, none: the switch may be made.
    ``report`` is what the generation keeps of it, as JSON values."""

    generation: str
    failures: tuple[str, ...]
    report: Metadata

    @property
    def passed(self) -> bool:
        return not self.failures


@dataclass(frozen=True, slots=True)
class SwitchReport:
    """A switch of the active generation. ``caught_up`` documents were written or removed for it
    after the generation was last whole; ``blocked`` is for how long writers waited, in seconds.
    ``warning`` is what failed beside the switch itself, or ''."""

    generation: str
    previous: str
    forced: bool
    caught_up: int
    blocked: float
    seconds: float
    warning: str = ""


@dataclass(frozen=True, slots=True)
class RunReport:
    """A whole rebuild; ``verify`` and ``switch`` are None where it was stopped before."""

    build: BuildReport
    verify: VerifyReport | None = None
    switch: SwitchReport | None = None


class NotVerified(RebuildError):
    """A new generation did not pass its verification, and nothing was switched; ``run`` is what was
    done until then."""

    def __init__(self, generation: str, failures: Sequence[str], run: RunReport | None = None):
        super().__init__(
            f"Generation {generation} did not pass, so nothing was switched: "
            f"{'; '.join(failure.rstrip('.') for failure in failures)}.",
            remedy=f"{REBUILD} mends what is damaged and verifies again; `knowport rebuild abort` "
            "drops it; `knowport rebuild activate --force` insists.",
        )
        self.run = run


@dataclass(frozen=True, slots=True)
class GenerationStatus:
    """A generation, how many documents it holds in their present version, of how many, and how
    many chunks it holds."""

    generation: Generation
    present: int
    documents: int
    chunks: int
    lost: bool


@dataclass(frozen=True, slots=True)
class RebuildStatus:
    """Every generation, oldest first; ``differs`` is how the active one is not what the settings
    ask for; ``unknown`` are collections that the ledger knows nothing of; ``next_step`` says in a
    sentence what can be done."""

    generations: tuple[GenerationStatus, ...]
    differs: tuple[str, ...]
    unknown: tuple[str, ...] = field(default=())
    next_step: str = ""
