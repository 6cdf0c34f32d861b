"""An embedded engine that takes its time to listen, as on a busy machine, is waited for."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from milvus_lite import server

from knowport.adapters.milvus import Engine

LATE = 1.5  # Lite itself waits for half a second


def test_an_engine_that_listens_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(args: Sequence[object], **more: Any) -> subprocess.Popen[bytes]:
        command = f"sleep {LATE}; exec {shlex.join(map(str, args))}"
        return subprocess.Popen(["sh", "-c", command], **more)

    patched = SimpleNamespace(Popen=late, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(server, "subprocess", patched)
    start = time.monotonic()
    engine = Engine.connect(str(tmp_path / "milvus.db"))
    try:
        assert time.monotonic() - start > LATE
        assert engine.client.list_collections() == []
    finally:
        engine.close()
