"""Fixtures of all tests.

Property tests draw the same examples each time, so that a change is judged by what it changes. To
look for new ones::

    HYPOTHESIS_PROFILE=explore pytest tests/property
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

from engines import Engines

# A time limit for each example would only tell how busy the machine is.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Milvus engines, each started when it is first asked for."""
    started = Engines(tmp_path_factory.mktemp("engines"))
    yield started
    started.stop()
