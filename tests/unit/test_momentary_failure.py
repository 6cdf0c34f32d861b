"""A search that the embedded engine fails for a moment, while rows are replaced, is done again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pymilvus.exceptions import MilvusException

from knowport.adapters.milvus import MilvusIndex
from knowport.errors import EngineError
from knowport.model import SearchRequest

NEGATIVE = 'Assert "element.val >= 0"  => Invalid sparse row: negative value at Utils.h:271'
REQUEST = SearchRequest(query="words", vector=None, kb_scope="default", mode="sparse")


class Nothing(list[Any]):
    """What the client returns for a query that finds no row."""

    ids: tuple[str, ...] = ()
    distances: tuple[float, ...] = ()


class Client:
    """Fails its first searches with the given messages; counts ``rows``."""

    def __init__(self, *failures: str, rows: int = 1) -> None:
        self.failures, self.rows = list(failures), rows
        self.searches = 0

    def query(self, *_: Any, **__: Any) -> list[dict[str, int]]:
        return [{"count(*)": self.rows}]

    def search(self, *_: Any, **__: Any) -> list[list[Any]]:
        self.searches += 1
        if self.failures:
            if not self.failures[0]:
                self.rows = 0
            raise MilvusException(message=self.failures.pop(0) or NEGATIVE)
        return [Nothing()]


def index(client: Client) -> MilvusIndex:
    engine: Any = SimpleNamespace(client=client, timeout=1.0, bm25_sign=1.0)
    return MilvusIndex(engine, "biz", dimension=2, lexical=True)


def test_it_is_searched_again() -> None:
    client = Client(NEGATIVE)
    assert index(client).search(REQUEST) == ()
    assert client.searches == 2


def test_it_is_searched_again_only_once() -> None:
    client = Client(NEGATIVE, NEGATIVE)
    with pytest.raises(EngineError, match="Invalid sparse row"):
        index(client).search(REQUEST)
    assert client.searches == 2


def test_a_collection_that_has_just_become_empty_is_empty() -> None:
    client = Client("")
    assert index(client).search(REQUEST) == ()
    assert client.searches == 1


def test_any_other_failure_is_raised_at_once() -> None:
    client = Client("out of memory")
    with pytest.raises(EngineError, match="out of memory"):
        index(client).search(REQUEST)
    assert client.searches == 1
