"""Fixtures of the tests of rebuilds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pymilvus.client import grpc_handler

from knowport import KnowledgeBase
from knowport.adapters.milvus import Engine, MilvusIndex
from rebuilds import Base, Hasty


@pytest.fixture(scope="session")
def rebuild_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    opened = Engine.connect(str(tmp_path_factory.mktemp("engine") / "milvus.db"))
    yield opened
    opened.close()


@pytest.fixture
def base(rebuild_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Base:
    monkeypatch.setattr(MilvusIndex, "prove_analyzer", lambda _: None)
    monkeypatch.setattr(grpc_handler, "time", Hasty())
    return Base(rebuild_engine, tmp_path)


@pytest.fixture
def kb(base: Base) -> Iterator[KnowledgeBase]:
    """Six pages in generation g1."""
    with base.filled() as opened:
        yield opened
