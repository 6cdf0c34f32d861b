"""What a rebuild gets of the adapters."""

from __future__ import annotations

import re
from collections.abc import Callable

from knowport.adapters.ledger import SqlLedger
from knowport.adapters.milvus import Engine, collections, drop_collection, point_alias
from knowport.bootstrap.generations import Generations, chunking_of
from knowport.errors import KnowportError
from knowport.model import Generation
from knowport.pipelines.rebuild_ports import Lookup, RebuildPorts, Target
from knowport.settings import Settings


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

    def outside() -> str:
        try:
            active = ledger.active_generation()
            if active is not None:
                follow_alias(engine(), settings, active)
        except KnowportError as error:
            return f"The alias for outside readers does not follow: {error}"
        return ""

    def switched() -> str:
        failed = ""
        try:
            follow()
        except KnowportError as error:  # the switch is made all the same
            failed = f"What follows a switch could not be done yet: {error}"
        return " ".join(filter(None, (failed, outside())))

    return RebuildPorts(
        ledger=ledger,
        prefix=prefix,
        wanted=generations.new,
        target=target,
        collection=generations.index_of,
        lookup=lookup,
        switched=switched,
        outside=outside,
        collections=lambda: (
            _like_generations(collections(engine()), prefix) if generations.there else ()
        ),
        drop_collection=lambda name: drop_collection(engine(), name),
    )


def follow_alias(engine: Engine, settings: Settings, active: Generation) -> None:
    """Let the alias for outside readers name the active collection. Raises EngineError."""
    point_alias(engine, settings.milvus.collection, active.collection)


def _like_generations(names: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    pattern = re.compile(rf"{re.escape(prefix)}_g\d+(_[0-9a-f]+)?(_probe)?")
    return tuple(name for name in names if pattern.fullmatch(name))
