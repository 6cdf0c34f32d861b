"""Milvus behind the search and write ports."""

from knowport.adapters.milvus.alias import collections, drop_collection, point_alias
from knowport.adapters.milvus.engine import Engine
from knowport.adapters.milvus.index import MilvusIndex
from knowport.adapters.milvus.room import is_embedded
from knowport.adapters.milvus.schema import ANALYZER, SCHEMA_VERSION

__all__ = [
    "ANALYZER",
    "SCHEMA_VERSION",
    "Engine",
    "MilvusIndex",
    "collections",
    "drop_collection",
    "is_embedded",
    "point_alias",
]
