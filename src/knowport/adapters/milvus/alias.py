"""What of a Milvus is seen beside one collection: an alias for outside readers, and names.

Outside readers that know the alias follow every switch. Nothing of ours reads through it: the
ledger's pointer decides, and an alias moves a moment later.
"""

from __future__ import annotations

from pymilvus.exceptions import MilvusException

from knowport.adapters.milvus.engine import Engine, translated
from knowport.adapters.milvus.room import room


def point_alias(engine: Engine, alias: str, collection: str) -> None:
    """Let an alias name a collection; made if it is not there. Raises EngineError.

    An embedded file has no outside readers, and its engine no aliases: nothing is done.
    """
    if engine.version == "embedded":
        return
    client, timeout = engine.client, engine.timeout
    with translated(f"alias {alias}"):
        try:
            client.alter_alias(collection, alias, timeout=timeout)
        except MilvusException:  # there is none yet; each engine says so in its own words
            client.create_alias(collection, alias, timeout=timeout)


def collections(engine: Engine) -> tuple[str, ...]:
    """Names of all collections, sorted. Raises EngineError."""
    with translated("listing collections"):
        return tuple(sorted(engine.client.list_collections(timeout=engine.timeout)))


def drop_collection(engine: Engine, name: str) -> None:
    """Drop a collection by name. Raises EngineError, EngineFull."""
    with room(engine.uri), translated(f"dropping collection {name}"):
        engine.client.drop_collection(name, timeout=engine.timeout)
