"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

from engines import Engines

# A time limit for each example would only tell how busy the machine is.
hypothesis.settings.register_profile("knowport", deadline=None)
hypothesis.settings.load_profile("knowport")


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Milvus engines, each started when it is first asked for."""
    started = Engines(tmp_path_factory.mktemp("engines"))
    yield started
    started.stop()
