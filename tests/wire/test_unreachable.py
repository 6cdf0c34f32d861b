"""A Milvus server that is away is an error of every command, also before anything was ingested."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowport.errors import EngineUnavailable
from support import knowport, make_folder

AWAY = {"KNOWPORT_MILVUS__URI": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    "command",
    [
        ("lookup", "x"),
        ("lookup", "x", "--json"),
        ("explain", "x"),
        ("trace", "lk_1"),
        ("evidence", "a#chunk-0"),
        ("status",),
        ("documents", "list"),
        ("documents", "show", "a"),
        ("domains", "check"),
        ("audit",),
        ("rebuild", "status"),
        ("serve", "--port=0"),
        ("ingest", "kb"),
        ("ingest", "kb", "--dry-run"),
    ],
)
def test_a_server_that_is_away_is_no_empty_index(tmp_path: Path, command: tuple[str, ...]) -> None:
    make_folder(tmp_path / "kb", {"a.md": "# A\n\nalpha\n"})

    done = knowport(*command, home=tmp_path / "home", environment=AWAY, hash_embedder=True)

    assert done.returncode == EngineUnavailable.exit_code
    assert "http://127.0.0.1:1" in done.stderr
    assert "empty" not in done.stdout + done.stderr
