"""Runs a test on every engine, or on those that its ``engine`` mark names.

A test that asks for ``mode`` runs in each search mode that its engine has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import engines as supply
import pytest

from knowport.adapters.milvus import Engine, MilvusIndex

DIMENSION = 8
TIMEOUT = 30.0

_numbers = itertools.count(1)


class Connections:
    """One connection an engine, kept over the tests."""

    def __init__(self, engines: supply.Engines) -> None:
        self._engines = engines
        self._open: dict[str, Engine] = {}

    def get(self, name: str) -> Engine:
        if name not in self._open:
            self._open[name] = Engine.connect(self._engines.uri(name), timeout=TIMEOUT)
        return self._open[name]

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
def new_index(engine_name: str, connections: Connections) -> Iterator[Callable[..., MilvusIndex]]:
    """Makes empty indexes, which are dropped after the test."""
    made: list[MilvusIndex] = []

    def make(*, dimension: int = DIMENSION, lexical: bool | None = None) -> MilvusIndex:
        engine = connections.get(engine_name)
        index = MilvusIndex(
            engine,
            f"contract_{next(_numbers)}",
            dimension=dimension,
            lexical=engine.lexical if lexical is None else lexical,
        )
        index.create()
        made.append(index)
        return index

    yield make
    for index in made:  # by a connection that is open even if the test has reopened
        MilvusIndex(
            connections.get(engine_name), index.collection, dimension=DIMENSION, lexical=False
        ).drop()


@pytest.fixture
def index(new_index: Callable[..., MilvusIndex]) -> MilvusIndex:
    """A fresh, empty index."""
    return new_index()


@pytest.fixture
def reopen(engine_name: str, connections: Connections) -> Callable[[MilvusIndex], MilvusIndex]:
    """Closes the connection of an index (which ends an embedded engine) and opens it again."""

    def again(index: MilvusIndex) -> MilvusIndex:
        connections.close(engine_name)
        engine = connections.get(engine_name)
        return MilvusIndex(engine, index.collection, dimension=DIMENSION, lexical=engine.lexical)

    return again
