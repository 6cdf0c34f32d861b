"""What clients do that no client should: floods, drips, half a request, far too much of it."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_service import Running, read_all, running
from knowport.model import Matrix, Vector
from support import HashEmbedder

MIB = 2**20


class GateEmbedder(HashEmbedder):
    """Embeds queries that hold "HOLD" only when ``gate`` is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.waiting = threading.Semaphore(0)

    def embed_query(self, text: str) -> Vector:
        if "HOLD" in text:
            self.waiting.release()
            assert self.gate.wait(120)
        return super().embed_query(text)

    def embed_documents(self, texts: Any) -> Matrix:
        if any("HOLD" in text for text in texts):
            self.waiting.release()
            assert self.gate.wait(120)
        return super().embed_documents(texts)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = {"header_timeout": 0.6, "body_timeout": 0.8, "max_body_bytes": 4 * MIB}
    with running(tmp_path_factory.mktemp("limits") / "home", limits) as one:
        yield one


@pytest.fixture(autouse=True)
def _still_answers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test did to it, the service answers others."""
    yield
    if "served" in request.fixturenames:
        assert request.getfixturevalue("served").client.get("/healthz").status_code == 200


def replies(raw: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Status and JSON of each reply in what came over a connection."""
    found = []
    while raw:
        head, _, raw = raw.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        length = next(int(li.split(":")[1]) for li in lines if li.startswith("content-length"))
        found.append((int(lines[0].split()[1]), json.loads(raw[:length])))
        raw = raw[length:]
    return found


def one_reply(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """The next reply of a connection that stays open."""
    reader = connection.makefile("rb")
    head = [reader.readline()]
    while (line := reader.readline()) not in (b"\r\n", b""):
        head.append(line.lower())
    length = next(int(li.split(b":")[1]) for li in head if li.startswith(b"content-length"))
    return int(head[0].split()[1]), json.loads(reader.read(length))


def reply_while_dripping(connection: socket.socket, drop: bytes) -> tuple[int, dict[str, Any]]:
    """The reply that comes although the client has not stopped sending."""
    for _ in range(90):
        connection.sendall(drop)
        if select.select([connection], [], [], 0.1)[0]:
            return one_reply(connection)
    raise AssertionError("no reply before the client ended")


def exchange(served: Running, *parts: bytes, pause: float = 0) -> list[tuple[int, dict[str, Any]]]:
    """What comes back for bytes that are sent as they are."""
    with served.connect() as connection:
        for part in parts:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(part)
            time.sleep(pause)
        return replies(read_all(connection))


def request(path: str = "/v1/status", method: str = "GET", headers: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode()


# -- heads ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        "".join(f"x-{n}: 1\r\n" for n in range(200)),
        "".join(f"x-{n}: {'y' * 100}\r\n" for n in range(5_000)),
        f"x-big: {'y' * 40_000}\r\n",
        f"x-big: {'y' * 2_000_000}\r\n",
        f"Authorization: Bearer {'y' * 1_000_000}\r\n",
    ],
)
def test_a_flood_of_headers_is_turned_away(served: Running, headers: str) -> None:
    [(status, problem)] = exchange(served, request(headers=headers + "Connection: close\r\n"))

    assert (status, problem["code"]) == (431, "head_too_large")


def test_an_address_without_end_is_turned_away(served: Running) -> None:
    [(status, problem)] = exchange(
        served, request("/v1/documents?id=" + "a" * 50_000, headers="Connection: close\r\n")
    )

    assert (status, problem["code"]) == (431, "head_too_large")


@pytest.mark.parametrize("sent", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b"])
def test_a_head_that_does_not_arrive_is_not_waited_for(served: Running, sent: bytes) -> None:
    [(status, problem)] = exchange(served, sent)

    assert (status, problem["code"]) == (408, "head_timeout")


def test_a_head_that_drips_is_not_waited_for(served: Running) -> None:
    with served.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        status, problem = reply_while_dripping(connection, b"x: y\r\n")

    assert (status, problem["code"]) == (408, "head_timeout")


def test_the_second_head_of_a_connection_has_its_time_too(served: Running) -> None:
    with served.connect() as connection:
        connection.sendall(request("/healthz"))
        time.sleep(0.3)
        connection.sendall(b"GET /he")
        found = replies(read_all(connection))

    assert [status for status, _ in found] == [200, 408]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nx y: 1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_in_the_one_shape(served: Running, sent: bytes) -> None:
    [(status, problem)] = exchange(served, sent)

    assert (status, problem["code"]) == (400, "invalid_http")
    assert problem["remedy"]


# -- bodies -----------------------------------------------------------------------------------

CHUNKED = "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/lookup"), ("PUT", "/v1/documents")])
def test_two_hundred_megabytes_in_chunks_are_cut_off(
    served: Running, method: str, path: str
) -> None:
    piece = b"100000\r\n" + b"x" * MIB + b"\r\n"
    sent = 0
    with served.connect() as connection:
        connection.sendall(request(path, method, CHUNKED))
        while sent < 200 and not select.select([connection], [], [], 0)[0]:
            connection.sendall(piece)
            sent += 1
        status, problem = one_reply(connection)

    assert (status, problem["code"]) == (413, "too_large")
    assert sent < 40  # the limit, and what lies in buffers between


def test_a_declared_size_is_believed_at_once(served: Running) -> None:
    headers = f"Content-Length: {200 * MIB}\r\nExpect: 100-continue\r\n"

    with served.connect() as connection:
        connection.sendall(request("/v1/documents?id=a", "PUT", headers))
        status, problem = one_reply(connection)

    assert (status, problem["code"]) == (413, "too_large")


def test_a_body_larger_than_it_was_said_to_be_is_not_taken(served: Running) -> None:
    headers = "Content-Length: 2\r\nContent-Type: application/json\r\nConnection: close\r\n"

    found = exchange(served, request("/v1/lookup", "POST", headers) + b'{"query": "x"}')

    assert [(status, problem["code"]) for status, problem in found] == [(400, "invalid_json")]


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_that_drips_is_not_waited_for(served: Running, chunked: bool) -> None:
    kind = "Transfer-Encoding: chunked\r\n" if chunked else "Content-Length: 100\r\n"
    head = request("/v1/lookup", "POST", f"{kind}Content-Type: application/json\r\n")
    drop = b"1\r\n \r\n" if chunked else b" "
    with served.connect() as connection:
        connection.sendall(head)
        status, problem = reply_while_dripping(connection, drop)

    assert (status, problem["code"]) == (408, "body_timeout")


def test_a_bad_chunk_is_no_fault_of_the_service(served: Running) -> None:
    found = exchange(served, request("/v1/lookup", "POST", CHUNKED) + b"zz\r\n")

    assert [(status, problem["code"]) for status, problem in found] == [(400, "invalid_http")]


def test_an_upload_of_the_allowed_size_is_taken(served: Running) -> None:
    text = ("word " * 199 + "\n") * 200  # a fifth of a megabyte
    reply = served.client.put("/v1/documents", json={"id": "big", "text": text})

    assert reply.status_code == 201, reply.text
    served.client.delete("/v1/documents", params={"id": "big"})


# -- connections ------------------------------------------------------------------------------


def test_a_client_that_closed_its_own_side_still_gets_its_reply(served: Running) -> None:
    body = b'{"query": "ERROR 1205"}'
    headers = f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n"
    with served.connect() as connection:
        connection.sendall(request("/v1/lookup", "POST", headers) + body)
        connection.shutdown(socket.SHUT_WR)
        [(status, answer)] = replies(read_all(connection))

    assert (status, answer["found"]) == (200, True)


@pytest.mark.parametrize("reset", [True, False])
def test_a_client_that_goes_in_the_middle_of_a_body_harms_nobody(
    served: Running, reset: bool
) -> None:
    with served.connect() as connection:
        connection.sendall(request("/v1/lookup", "POST", CHUNKED) + b"5\r\n{")
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        else:
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection) == b""


def test_requests_in_one_packet_are_answered_in_order(served: Running) -> None:
    last = request("/healthz", headers="Connection: close\r\n")

    found = exchange(served, request("/v1/status") + request("/nothing") + last)

    assert [status for status, _ in found] == [200, 404, 200]


def test_more_connections_than_allowed_are_turned_away(tmp_path: Path) -> None:
    limits = {"max_connections": 5, "header_timeout": 5}
    with running(tmp_path / "home", limits, documents={}) as one, contextlib.ExitStack() as held:
        for _ in range(5):
            held.enter_context(one.connect())
        time.sleep(0.1)
        with one.connect() as connection:
            [(status, problem)] = replies(read_all(connection))

        assert (status, problem["code"]) == (503, "too_many_connections")
        held.close()
        time.sleep(0.1)
        assert one.client.get("/healthz").status_code == 200


def test_a_reply_does_not_wait_for_the_head_of_it_to_be_acknowledged(served: Running) -> None:
    spent = []
    for _ in range(30):
        started = time.perf_counter()
        served.client.get("/healthz")
        spent.append(time.perf_counter() - started)

    # An acknowledgement is put off for 40 ms. Some replies may take longer than that on a busy
    # machine, but each would.
    assert sorted(spent[10:])[4] < 0.03


# -- queues and time --------------------------------------------------------------------------


def test_beyond_the_queue_requests_are_turned_away_at_once(tmp_path: Path) -> None:
    gate = GateEmbedder()
    limits = {"lookup_threads": 2, "lookup_queue": 3}
    with (
        running(tmp_path / "home", limits, embedder=gate) as one,
        ThreadPoolExecutor(20) as clients,
        httpx.Client(base_url=one.url, timeout=30, limits=httpx.Limits(max_connections=30)) as c,
    ):
        asked = [
            clients.submit(c.post, "/v1/lookup", json={"query": f"HOLD {n}"}) for n in range(12)
        ]
        for _ in range(2):
            assert gate.waiting.acquire(timeout=120)
        deadline = time.monotonic() + 120
        while sum(reply.done() for reply in asked) < 7:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        refused = [reply.result() for reply in asked if reply.done()]
        assert c.get("/healthz").status_code == 200  # the others still wait
        gate.gate.set()
        answered = [reply.result() for reply in asked if reply.result() not in refused]

    assert {reply.status_code for reply in refused} == {503}
    assert {reply.json()["code"] for reply in refused} == {"overloaded"}
    assert {reply.headers["retry-after"] for reply in refused} == {"1"}
    assert [reply.status_code for reply in answered] == [200] * 5


def test_what_takes_too_long_is_given_up_and_its_thread_counts_until_it_is_free(
    tmp_path: Path,
) -> None:
    gate = GateEmbedder()
    limits = {"lookup_threads": 1, "lookup_queue": 0, "request_timeout": 0.3, "write_timeout": 0.3}
    with running(tmp_path / "home", limits, embedder=gate) as one:
        late = one.client.post("/v1/lookup", json={"query": "HOLD"})
        full = one.client.post("/v1/lookup", json={"query": "other"})
        put = one.client.put("/v1/documents", json={"id": "late", "text": "HOLD it"})
        gate.gate.set()
        deadline = time.monotonic() + 120
        while one.client.post("/v1/lookup", json={"query": "other"}).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        while one.client.get("/v1/documents", params={"id": "late"}).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    assert (late.status_code, late.json()["code"]) == (504, "timeout")
    assert (full.status_code, full.json()["code"]) == (503, "overloaded")
    assert (put.status_code, put.json()["code"]) == (504, "timeout")
    assert "come to its end" in put.json()["remedy"]


def test_a_write_does_not_wait_behind_lookups_nor_a_lookup_behind_writes(tmp_path: Path) -> None:
    gate = GateEmbedder()
    limits = {"lookup_threads": 1, "write_threads": 1}
    with running(tmp_path / "home", limits, embedder=gate) as one, ThreadPoolExecutor(2) as clients:
        lookup = clients.submit(one.client.post, "/v1/lookup", json={"query": "HOLD"})
        assert gate.waiting.acquire(timeout=120)
        put = one.client.put("/v1/documents", json={"id": "a", "text": "text"})
        gate.gate.set()
        assert lookup.result().status_code == 200
        gate.gate.clear()
        slow = clients.submit(one.client.put, "/v1/documents", json={"id": "b", "text": "HOLD it"})
        assert gate.waiting.acquire(timeout=120)
        found = one.client.post("/v1/lookup", json={"query": "text"})
        gate.gate.set()

        assert put.status_code == 201
        assert found.status_code == 200
        assert slow.result().status_code == 201
