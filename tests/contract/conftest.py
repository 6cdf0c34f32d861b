"""Runs a test on every engine, or on those that its ``engine`` mark names.

A test that asks for ``mode`` runs in each search mode that its engine has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import engines as supply
from knowport.adapters.milvus import Engine, MilvusIndex

DIMENSION = 8
TIMEOUT = 30.0
STOCK = 12

_numbers = itertools.count(1)


class Connections:
    """One connection an engine, kept over the tests, and a stock of empty collections.

    pymilvus sleeps 1 to 3 seconds while it creates a collection, but not longer for twelve at
    once.
    """

    def __init__(self, engines: supply.Engines) -> None:
        self._engines = engines
        self._open: dict[str, Engine] = {}
        self._stock: dict[str, list[str]] = {}

    def get(self, name: str) -> Engine:
        if name not in self._open:
            self._open[name] = Engine.connect(self._engines.uri(name), timeout=TIMEOUT)
        return self._open[name]

    def index(self, name: str, collection: str) -> MilvusIndex:
        engine = self.get(name)
        return MilvusIndex(engine, collection, dimension=DIMENSION, lexical=engine.lexical)

    def fresh_index(self, name: str) -> MilvusIndex:
        stock = self._stock.setdefault(name, [])
        if not stock:
            made = [self.index(name, f"contract_{next(_numbers)}") for _ in range(STOCK)]
            with ThreadPoolExecutor(STOCK) as pool:
                list(pool.map(MilvusIndex.create, made))
            stock.extend(index.collection for index in made)
        return self.index(name, stock.pop())

    def close(self, name: str) -> None:
        self._open.pop(name).close()

    def close_all(self) -> None:
        for name in list(self._open):
            self.close(name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine_name" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("engine")
    names: tuple[str, ...] = mark.args if mark else supply.ALL
    if "mode" not in metafunc.fixturenames:
        metafunc.parametrize("engine_name", names, scope="session")
        return
    runs = [
        (name, mode)
        for name in names
        for mode in ("dense", "hybrid")
        if mode == "dense" or name in supply.LEXICAL
    ]
    metafunc.parametrize(("engine_name", "mode"), runs, scope="session")


@pytest.fixture(scope="session")
def connections(engines: supply.Engines) -> Iterator[Connections]:
    kept = Connections(engines)
    yield kept
    kept.close_all()


@pytest.fixture
def engine(engine_name: str, connections: Connections) -> Engine:
    return connections.get(engine_name)


@pytest.fixture
def index(engine_name: str, connections: Connections) -> Iterator[MilvusIndex]:
    """An empty index of its own collection, which is dropped after the test."""
    fresh = connections.fresh_index(engine_name)
    yield fresh
    # By the connection that is open now: the test may have reopened.
    connections.index(engine_name, fresh.collection).drop()


@pytest.fixture
def reopen(engine_name: str, connections: Connections) -> Callable[[MilvusIndex], MilvusIndex]:
    """Closes the connection of an index (which ends an embedded engine) and opens it again."""

    def again(index: MilvusIndex) -> MilvusIndex:
        connections.close(engine_name)
        return connections.index(engine_name, index.collection)

    return again
