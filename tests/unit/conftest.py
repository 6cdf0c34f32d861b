"""Fixtures of the tests of rebuilds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymilvus.client import grpc_handler

from knowport import KnowledgeBase
from knowport.adapters.milvus import Engine, MilvusIndex
from rebuilds import Base


@pytest.fixture(scope="module")
def rebuild_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    opened = Engine.connect(str(tmp_path_factory.mktemp("engine") / "milvus.db"))
    yield opened
    opened.close()


class _Hasty:
    """``time`` for the engine's client, which waits half a second before it first asks whether an
    index is made."""

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.01))

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@pytest.fixture
def base(rebuild_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Base:
    monkeypatch.setattr(MilvusIndex, "prove_analyzer", lambda _: None)
    monkeypatch.setattr(grpc_handler, "time", _Hasty())
    return Base(rebuild_engine, tmp_path)


@pytest.fixture
def kb(base: Base) -> Iterator[KnowledgeBase]:
    """Six pages in generation g1."""
    with base.filled() as opened:
        yield opened
