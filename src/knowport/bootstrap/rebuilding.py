"""What a rebuild gets of the adapters."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from knowport.adapters.disk import left_in, says_full
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.milvus import Engine, collections, drop_collection, point_alias
from knowport.bootstrap.generations import Generations, chunking_of
from knowport.errors import ConfigurationError, EngineError, LedgerFull, RebuildError
from knowport.model import Generation
from knowport.pipelines.rebuild_ports import Lookup, RebuildPorts, Target
from knowport.settings import Settings

LOCK_FILE = "rebuild.lock"


def rebuild_ports(
    settings: Settings,
    ledger: SqlLedger,
    generations: Generations,
    *,
    lookup: Callable[[Generation], Lookup],
    follow: Callable[[], object],
) -> RebuildPorts:
    """Ports for building, proving and switching generations; ``follow`` lets this process serve
    the active one."""
    engine, prefix = generations.connected, settings.milvus.collection

    def target(generation: Generation) -> Target:
        return Target(
            generation,
            generations.index_of(generation),
            generations.embedder_of(generation),
            chunking_of(generation),
        )

    def switched() -> str:
        follow()
        active = ledger.active_generation()
        assert active is not None  # it was switched to
        try:
            follow_alias(engine(), settings, active)
        except EngineError as error:
            return f"The alias for outside readers does not follow: {error}"
        return ""

    return RebuildPorts(
        ledger=ledger,
        prefix=prefix,
        wanted=generations.new,
        target=target,
        collection=generations.index_of,
        lookup=lookup,
        alone=lambda: _alone(settings.home / LOCK_FILE),
        switched=switched,
        collections=lambda: _like_generations(collections(engine()), prefix),
        drop_collection=lambda name: drop_collection(engine(), name),
    )


def follow_alias(engine: Engine, settings: Settings, active: Generation) -> None:
    """Let the alias for outside readers name the active collection. Raises EngineError."""
    point_alias(engine, settings.milvus.collection, active.collection)


def _like_generations(names: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    pattern = re.compile(rf"{re.escape(prefix)}_g\d+(_[0-9a-f]+)?(_probe)?")
    return tuple(name for name in names if pattern.fullmatch(name))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Held by one rebuild command of a home at a time; freed by the end of its process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        if says_full(error):
            raise LedgerFull(
                f"The disk is full: {left_in(path.parent)}, and {path.name} cannot be made.",
                remedy="Free space there, then run the same again.",
            ) from error
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}.",
            remedy="Mend the permissions of the home, or name another one (KNOWPORT_HOME).",
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RebuildError(
                f"Another rebuild command is at work in {path.parent}.",
                remedy="Wait for it to end; `knowport rebuild status` shows how far it is.",
            ) from None
        yield
