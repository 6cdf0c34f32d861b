"""OpenAIEmbedder against a real HTTP server that misbehaves in known ways."""

from __future__ import annotations

import io
import logging
import random
import socket
import traceback
from collections.abc import Iterator

import numpy as np
import pytest

from knowport.adapters.embedding.openai import OpenAIEmbedder
from knowport.errors import ConfigurationError, EmbeddingError, EmbeddingUnavailable
from stub_embeddings import CASES, FULL, Case, StubEmbeddings, StubReply

KEY = "sk-test-4f9d0c7a61"
TWENTY_SECONDS_BEFORE = 1792567660.0  # Wed, 21 Oct 2026 07:27:40 GMT, 20 s before the stub's date


class FakeTime:
    """A clock that only moves when someone sleeps, and that remembers how long."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


def embedder(stub: StubEmbeddings, fake_time: FakeTime, **settings: object) -> OpenAIEmbedder:
    settings = {"api_key": KEY, "timeout": 5.0, **settings}
    return OpenAIEmbedder(
        stub.base_url,
        "stub-model",
        3,
        sleep=fake_time.sleep,
        clock=fake_time.clock,
        wall_clock=lambda: TWENTY_SECONDS_BEFORE,
        rng=random.Random(7),
        **settings,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_known_reply_comes_to_what_is_wanted(case: Case, fake_time: FakeTime) -> None:
    settings = {"timeout": 0.3, "max_retries": 1} if case.name == "stall" else {}
    texts = [f"text {i}" for i in range(case.n)]
    with StubEmbeddings(case.reply) as stub:
        subject = embedder(stub, fake_time, batch_size=25, **settings)
        if isinstance(case.want, list):
            np.testing.assert_array_equal(subject.embed_documents(texts), case.want)
        else:
            with pytest.raises(EmbeddingError) as caught:
                subject.embed_documents(texts)
            for words in case.want:
                assert words in str(caught.value)
            assert caught.value.position == case.position
            assert isinstance(caught.value, EmbeddingUnavailable) is case.transient
        assert len(stub.requests) == case.requests
        assert len(fake_time.slept) == case.requests - 1


def test_the_request_asks_for_floats_and_sends_the_prefix(fake_time: FakeTime) -> None:
    with StubEmbeddings() as stub:
        subject = embedder(stub, fake_time, query_prefix="q: ", document_prefix="d: ")
        subject.embed_query("检索")
        subject.embed_documents(["a\0b", "c"])
        assert stub.requests == [
            {"model": "stub-model", "input": ["q: 检索"], "encoding_format": "float"},
            {"model": "stub-model", "input": ["d: ab", "d: c"], "encoding_format": "float"},
        ]
        assert stub.headers[0]["authorization"] == f"Bearer {KEY}"


def test_dimensions_are_sent_only_on_demand(fake_time: FakeTime) -> None:
    with StubEmbeddings() as stub:
        embedder(stub, fake_time, send_dimensions=True).embed_query("x")
        assert stub.requests[0]["dimensions"] == 3


def test_the_key_of_the_environment_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, fake_time: FakeTime
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    with StubEmbeddings() as stub:
        embedder(stub, fake_time, api_key=None).embed_query("x")
        assert stub.headers[0]["authorization"] == "Bearer not-needed"


def test_25_texts_reach_a_server_that_takes_10(fake_time: FakeTime) -> None:
    with StubEmbeddings(most=10) as stub:
        matrix = embedder(stub, fake_time).embed_documents([f"text {i}" for i in range(25)])
        assert [len(r["input"]) for r in stub.requests] == [10, 10, 5]
        assert stub.requests[2]["input"][0] == "text 20"
    assert matrix.shape == (25, 3)
    np.testing.assert_array_equal(matrix[:3], FULL)


def test_an_empty_list_needs_no_request(fake_time: FakeTime) -> None:
    with StubEmbeddings() as stub:
        matrix = embedder(stub, fake_time).embed_documents([])
        assert (matrix.shape, matrix.dtype, stub.requests) == ((0, 3), np.float32, [])


# Waiting


def test_only_the_failed_batch_is_sent_again(fake_time: FakeTime) -> None:
    ok = {"data": [{"embedding": [1, 0, 0]}, {"embedding": [0, 1, 0]}]}
    script = (StubReply(body=ok, times=1), StubReply(429, times=1))
    with StubEmbeddings(*script) as stub:
        embedder(stub, fake_time, batch_size=2).embed_documents(["a", "b", "c"])
        assert [r["input"] for r in stub.requests] == [["a", "b"], ["c"], ["c"]]


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
def test_statuses_that_may_pass_are_tried_again(status: int, fake_time: FakeTime) -> None:
    with StubEmbeddings(StubReply(status, times=1)) as stub:
        embedder(stub, fake_time).embed_documents(["a"])
        assert len(stub.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_statuses_that_stay_are_not(status: int, fake_time: FakeTime) -> None:
    with StubEmbeddings(StubReply(status, {"error": "no"})) as stub:
        with pytest.raises(EmbeddingError) as caught:
            embedder(stub, fake_time).embed_documents(["a"])
        assert not caught.value.transient
        assert len(stub.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [("2", 2, 3), ("Wed, 21 Oct 2026 07:28:00 GMT", 20, 21), ("3600", 60, 60), ("soon", 0, 0.5)],
)
def test_the_server_says_how_long_to_wait(
    status: int, retry_after: str, least: float, most: float, fake_time: FakeTime
) -> None:
    with StubEmbeddings(StubReply(status, headers={"Retry-After": retry_after}, times=1)) as stub:
        embedder(stub, fake_time).embed_documents(["a"])
    assert least <= fake_time.slept[0] <= most


def test_all_waiting_together_is_bounded(fake_time: FakeTime) -> None:
    with StubEmbeddings(StubReply(429, headers={"Retry-After": "50"})) as stub:
        with pytest.raises(EmbeddingUnavailable):
            embedder(stub, fake_time, max_total_wait=120).embed_documents(["a"])
        assert len(stub.requests) == 3
    assert 100 <= fake_time.now <= 120


def test_a_spent_quota_is_not_waited_for(fake_time: FakeTime) -> None:
    body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    with StubEmbeddings(StubReply(429, body)) as stub:
        with pytest.raises(EmbeddingError, match="exceeded your quota"):
            embedder(stub, fake_time).embed_documents(["a"])
        assert len(stub.requests) == 1


def test_a_query_is_tried_twice_at_most(fake_time: FakeTime) -> None:
    with StubEmbeddings(StubReply(503)) as stub:
        with pytest.raises(EmbeddingUnavailable, match="2 attempts"):
            embedder(stub, fake_time).embed_query("a")
        assert len(stub.requests) == 2


def test_a_query_does_not_wait_as_long_as_documents_do(fake_time: FakeTime) -> None:
    with StubEmbeddings(StubReply(429, headers={"Retry-After": "30"})) as stub:
        subject = embedder(stub, fake_time)
        with pytest.raises(EmbeddingUnavailable, match="1 attempts"):
            subject.embed_query("a")
    assert fake_time.slept == []


# Real time limits: without them the stub's reply would arrive whole, or nothing ever would.


def limited(base_url: str, **settings: float) -> OpenAIEmbedder:
    return OpenAIEmbedder(base_url, "m", 3, max_retries=0, **settings)


@pytest.mark.parametrize(
    "reply", [StubReply(stall=3.0), StubReply(drip=0.05)], ids=["stall", "drip"]
)
def test_a_slow_reply_is_given_up(reply: StubReply) -> None:
    with StubEmbeddings(reply) as stub:
        with pytest.raises(EmbeddingUnavailable, match=r"no complete reply within 0\.3 s"):
            limited(stub.base_url, timeout=0.3).embed_documents(["a"])
        with pytest.raises(EmbeddingUnavailable, match=r"no complete reply within 0\.2 s"):
            limited(stub.base_url, query_timeout=0.2).embed_query("a")


@pytest.fixture
def full_backlog() -> Iterator[int]:
    """Port of a socket that answers no more connection attempts."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]
        for client in waiting:
            client.close()


def test_a_connection_that_hangs_is_given_up(full_backlog: int) -> None:
    with pytest.raises(EmbeddingUnavailable, match=r"0\.3 s"):
        limited(f"http://127.0.0.1:{full_backlog}/v1", timeout=0.3).embed_documents(["a"])


def test_a_refused_connection_is_tried_again(fake_time: FakeTime) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    subject = OpenAIEmbedder(f"http://127.0.0.1:{port}", "m", 3, sleep=fake_time.sleep)
    with pytest.raises(EmbeddingUnavailable, match="6 attempts: ConnectError"):
        subject.embed_documents(["a"])
    assert len(fake_time.slept) == 5


# Who is to blame


def test_the_text_that_is_too_long_is_found(fake_time: FakeTime) -> None:
    texts = ["short", "short", "short", "x" * 2000, "short"]
    with StubEmbeddings(most_chars=1000) as stub:
        with pytest.raises(EmbeddingError, match=r"position 3 \(2000 characters") as caught:
            embedder(stub, fake_time, batch_size=2).embed_documents(texts)
        assert [len(r["input"]) for r in stub.requests] == [2, 2, 1, 1]
    assert caught.value.position == 3
    assert fake_time.slept == []


def test_a_batch_that_is_too_long_only_as_a_whole_is_split(
    fake_time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    too_long = StubReply(
        400, {"error": {"message": "Requested 312345 tokens, max 300000 tokens"}}, times=1
    )
    with StubEmbeddings(too_long) as stub:
        matrix = embedder(stub, fake_time).embed_documents(["a", "b"])
        assert [r["input"] for r in stub.requests] == [["a", "b"], ["a"], ["b"]]
    np.testing.assert_array_equal(matrix, [[1, 0, 0], [1, 0, 0]])
    assert "embedding.batch_size" in caplog.text


def test_positions_count_over_all_batches(fake_time: FakeTime) -> None:
    good = {"data": [{"index": 0, "embedding": [1, 0, 0]}, {"index": 1, "embedding": [1, 0, 0]}]}
    bad = {"data": [{"index": 0, "embedding": [1, 0, 0]}, {"index": 1, "embedding": [1, 0]}]}
    with StubEmbeddings(StubReply(body=good, times=1), StubReply(body=bad, times=1)) as stub:
        subject = embedder(stub, fake_time, batch_size=2)
        with pytest.raises(EmbeddingError, match="position 3") as caught:
            subject.embed_documents(["a", "b", "c", "d"])
    assert caught.value.position == 3


def test_a_lone_surrogate_is_refused_before_anything_is_sent(fake_time: FakeTime) -> None:
    with StubEmbeddings() as stub:
        with pytest.raises(EmbeddingError) as caught:
            embedder(stub, fake_time).embed_documents(["a", "b\ud800"])
        assert (caught.value.position, stub.requests) == (1, [])


# Secrets


def everything_said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__context__)


@pytest.mark.parametrize(
    "reply",
    [
        StubReply(401, {"error": {"message": f"Incorrect API key: {KEY}, sk-EXAM*****0000"}}),
        StubReply(500, {"error": {"message": f"Bearer {KEY} is not known"}}),
        StubReply(502, raw=f"<html>{'x' * 270}{KEY}</html>", content_type="text/html"),
    ],
    ids=["json", "bearer", "html at the cut"],
)
def test_the_key_is_said_nowhere(reply: StubReply, fake_time: FakeTime) -> None:
    """Not in an error, its traceback or a log, even with all debug logging on."""
    log = io.StringIO()
    handler, root = logging.StreamHandler(log), logging.getLogger()
    names = ("openai", "httpx", "httpcore", "httpx2", "httpcore2", "knowport")
    levels = {name: logging.getLogger(name).level for name in names}
    root.addHandler(handler)
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        with StubEmbeddings(reply) as stub, pytest.raises(EmbeddingError) as caught:
            embedder(stub, fake_time).embed_documents(["a"])
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    said = log.getvalue() + everything_said(caught.value) + caught.value.remedy
    assert "POST" in log.getvalue()
    assert KEY not in said
    assert KEY[:10] not in said
    assert "sk-EXAM" not in said


@pytest.mark.parametrize("key", ["sk-hunter2\n", "sk-hunter2\u00e9", " sk-hunter2"])
def test_a_key_that_no_header_can_hold_is_refused_unsaid(key: str) -> None:
    with pytest.raises(ConfigurationError, match=r"embedding\.api_key") as caught:
        OpenAIEmbedder("http://127.0.0.1/v1", "m", 3, api_key=key)
    assert "hunter2" not in everything_said(caught.value)


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "127.0.0.1:80",
        "ftp://host/v1",
        "http://",
        "http://u:hunter2@host/v1",
        "http://h/v1?k=hunter2",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_unsaid(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"embedding\.base_url") as caught:
        OpenAIEmbedder(base_url, "m", 3)
    assert "hunter2" not in everything_said(caught.value)


def test_a_long_message_is_cut(fake_time: FakeTime) -> None:
    with StubEmbeddings(StubReply(400, {"error": {"message": "x" * 5000}})) as stub:
        subject = embedder(stub, fake_time)
        with pytest.raises(EmbeddingError) as caught:
            subject.embed_documents(["a"])
    assert len(str(caught.value)) < 420
