"""An embedded engine that takes its time to listen, as on a busy machine, is waited for."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from milvus_lite import server
from pymilvus.exceptions import MilvusException

from knowport.adapters.milvus import Engine, engine
from knowport.errors import EngineUnavailable

LATE = 1.5  # Lite itself waits for half a second


def test_an_engine_that_listens_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(args: Sequence[object], **more: Any) -> subprocess.Popen[bytes]:
        command = f"sleep {LATE}; exec {shlex.join(map(str, args))}"
        return subprocess.Popen(["sh", "-c", command], **more)

    patched = SimpleNamespace(Popen=late, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(server, "subprocess", patched)
    start = time.monotonic()
    opened = Engine.connect(str(tmp_path / "milvus.db"))
    try:
        assert time.monotonic() - start > LATE
        assert opened.client.list_collections() == []
    finally:
        opened.close()


class HungUp(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """What a server answers that ends a connection."""

    def details(self) -> str:
        return "Too many pings"


HungUp.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


@pytest.mark.parametrize("hung_up", [True, False])
def test_a_server_that_hung_up_on_others_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, hung_up: bool
) -> None:
    asked = []

    def client(*_: Any, **__: Any) -> SimpleNamespace:
        asked.append(1)
        if len(asked) == 1:
            raise MilvusException(2, "Fail connecting to server") from (
                HungUp() if hung_up else None
            )
        return SimpleNamespace(close=lambda: None, get_server_version=lambda **_: "2.5.4")

    monkeypatch.setattr(engine, "MilvusClient", client)
    if hung_up:
        assert Engine.connect("http://127.0.0.1:19530").version == "2.5.4"
        assert len(asked) == 2
    else:
        with pytest.raises(EngineUnavailable):
            Engine.connect("http://127.0.0.1:19530")
        assert len(asked) == 1
