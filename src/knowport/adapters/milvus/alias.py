"""What of a Milvus is seen beside one collection: an alias for outside readers, and names.

Outside readers that know the alias follow every switch. Nothing of ours reads through it: the
ledger's pointer decides, and an alias moves a moment later.
"""

from __future__ import annotations

from pymilvus.exceptions import MilvusException

from knowport.adapters.milvus.engine import Engine, translated

_ALIAS_NOT_FOUND = 1600


def point_alias(engine: Engine, alias: str, collection: str) -> None:
    """Let an alias name a collection; made if it is not there. Raises EngineError.

    An embedded file has no outside readers, and its engine no aliases: nothing is done.
    """
    if engine.version == "embedded":
        return
    with translated(f"alias {alias}"):
        current = _collection_of(engine, alias)
        if current is None:
            engine.client.create_alias(collection, alias, timeout=engine.timeout)
        elif current != collection:
            engine.client.alter_alias(collection, alias, timeout=engine.timeout)


def _collection_of(engine: Engine, alias: str) -> str | None:
    """The collection that an alias names, None where there is no such alias."""
    try:
        found = engine.client.describe_alias(alias, timeout=engine.timeout)
    except MilvusException as error:
        if error.code == _ALIAS_NOT_FOUND or "not found" in str(error.message).lower():
            return None
        raise
    return str(found["collection_name"]) or None


def collections(engine: Engine) -> tuple[str, ...]:
    """Names of all collections, sorted. Raises EngineError."""
    with translated("listing collections"):
        return tuple(sorted(engine.client.list_collections(timeout=engine.timeout)))


def drop_collection(engine: Engine, name: str) -> None:
    """Drop a collection by name. Raises EngineError."""
    with translated(f"dropping collection {name}"):
        engine.client.drop_collection(name, timeout=engine.timeout)
