"""What counts as a change of a folder that is watched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowport.adapters.loading import ticks
from knowport.errors import InvalidInput


def until_changed(changes: Iterator[bool]) -> None:
    deadline = time.monotonic() + 120
    while not next(changes):
        assert time.monotonic() < deadline


def test_a_folder_that_another_one_takes_the_place_of_is_watched_on(tmp_path: Path) -> None:
    root = tmp_path / "kb"
    root.mkdir()
    changes = ticks(root, tmp_path / "home")
    assert next(changes) is False

    root.rename(tmp_path / "old")
    for _ in range(5):
        next(changes)
    root.mkdir()
    until_changed(changes)
    while next(changes):  # what came with the change itself
        pass

    (root / "new.md").write_text("# New")
    until_changed(changes)


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be watched"):
        next(ticks(tmp_path / "none", tmp_path / "home"))
