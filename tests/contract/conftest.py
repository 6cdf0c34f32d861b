"""Runs a test on every engine, or on those that its ``engine`` mark names.

A test that asks for ``mode`` runs in each search mode that its engine has. One that asks for a
``ledger`` runs on SQLite and on a real PostgreSQL; without PostgreSQL on the machine that half is
skipped, except in CI, where it is an error.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import engines as supply
import postgres
from knowport.adapters.ledger import SqlLedger
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


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Postgres]:
    folder = postgres.programs()
    if folder is None and not os.environ.get("CI"):
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    assert folder is not None, "CI must install PostgreSQL"
    with postgres.running(folder) as running:
        yield running


@pytest.fixture
def postgres_url(server: postgres.Postgres) -> str:
    """Of an empty schema, which is made faster than a database."""
    name = f"ledger_{next(_numbers)}"
    server.execute(f"CREATE SCHEMA {name}")
    return f"{server.url()}?options=-csearch_path%3D{name}"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'home' / 'ledger.sqlite3'}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Of an empty database."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[], SqlLedger]]:
    """Opens the database; each call is a connection pool of its own, as in another process."""
    ledgers: list[SqlLedger] = []

    def again() -> SqlLedger:
        ledgers.append(SqlLedger(url, exclusive_seconds=10))
        return ledgers[-1]

    yield again
    for one in ledgers:
        one.close()


@pytest.fixture
def ledger(opened: Callable[[], SqlLedger]) -> SqlLedger:
    return opened()
