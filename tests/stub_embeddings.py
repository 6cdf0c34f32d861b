"""A local HTTP server that plays an embeddings endpoint from data.

A ``StubReply`` says what to send and how often; when the script is used up, the stub answers
properly: text number ``i`` of a request gets a unit vector of ``dimension`` numbers.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class StubReply:
    """One kind of reply, sent ``times`` times; None means for ever.

    ``stall`` seconds pass before anything is sent. With ``drip`` the body comes one byte every
    ``drip`` seconds and never ends.
    """

    status: int = 200
    body: Any = None
    raw: str | None = None
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    stall: float = 0.0
    drip: float = 0.0
    times: int | None = None


@dataclass(frozen=True)
class Case:
    """A reply to ``n`` texts and what should come of it.

    ``want`` is a matrix or words that the error must hold; ``requests`` counts the tries.
    """

    name: str
    n: int
    reply: StubReply
    want: list[list[float]] | tuple[str, ...]
    requests: int = 1
    position: int | None = None
    transient: bool = False


def _data(*entries: tuple[int | None, Any]) -> dict[str, Any]:
    return {
        "data": [
            {"embedding": vector} if index is None else {"index": index, "embedding": vector}
            for index, vector in entries
        ]
    }


def _error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


X, Y, Z = [1, 0, 0], [0, 1, 0], [0, 0, 1]
FULL = [X, Y, Z]

CASES = [
    Case("out_of_order", 3, StubReply(body=_data((2, Z), (0, X), (1, Y))), FULL),
    Case(
        "one_missing",
        3,
        StubReply(body=_data((0, X), (2, Z))),
        ("2 vectors for 3 texts", "position 1 is missing"),
        position=1,
    ),
    Case("duplicate_index", 2, StubReply(body=_data((0, X), (0, Y))), ("index 0 twice",)),
    Case("no_index_field", 2, StubReply(body=_data((None, X), (None, Y))), [X, Y]),
    Case(
        "nan_literal",
        1,
        StubReply(raw='{"data":[{"index":0,"embedding":[NaN,0.1,0.2]}]}'),
        ("position 0", "number 0 is not finite"),
        position=0,
    ),
    Case(
        "null_values",
        1,
        StubReply(raw='{"data":[{"index":0,"embedding":[null,0.1,0.2]}]}'),
        ("position 0", "number 0 is null"),
        position=0,
    ),
    Case(
        "all_zero",
        1,
        StubReply(body=_data((0, [0, 0, 0]))),
        ("position 0", "norm is zero"),
        position=0,
    ),
    Case("base64", 1, StubReply(body=_data((0, "AACAPwAAAAAAAAAA"))), [X]),
    Case(
        "wrong_dim",
        1,
        StubReply(body=_data((0, [1, 0]))),
        ("expected 3 numbers, got 2", "embedding.dimensions"),
        position=0,
    ),
    Case("empty_data", 1, StubReply(body={"data": []}), ("0 vectors for 1 texts",), position=0),
    Case(
        "error_in_200",
        1,
        StubReply(body=_error("model overloaded", code=503)),
        ("model overloaded", "6 attempts"),
        requests=6,
        transient=True,
    ),
    Case(
        "html_body",
        1,
        StubReply(raw="<html>gateway</html>", content_type="text/html; charset=utf-8"),
        ("text/html", "<html>gateway</html>", "embedding.base_url"),
    ),
    Case(
        "batch_too_big",
        25,
        StubReply(
            status=400,
            body=_error(
                "batch size is invalid, it should not be larger than 10", code="InvalidParameter"
            ),
        ),
        ("batch of 25", "larger than 10", "embedding.batch_size"),
    ),
    Case("429_seconds", 1, StubReply(429, headers={"Retry-After": "2"}, times=1), [X], requests=2),
    Case(
        "429_date",
        1,
        StubReply(429, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, times=1),
        [X],
        requests=2,
    ),
    Case(
        "429_forever",
        1,
        StubReply(status=429),
        ("HTTP 429", "6 attempts", "Try again later"),
        requests=6,
        transient=True,
    ),
    Case("503_then_ok", 1, StubReply(status=503, times=2), [X], requests=3),
    Case(
        "400_too_long",
        1,
        StubReply(status=400, body=_error("maximum context length is 512 tokens")),
        ("position 0", "(6 characters as sent)", "512 tokens", "chunking.size"),
        position=0,
    ),
    Case(
        "400_dimensions",
        1,
        StubReply(status=400, body=_error("does not support matryoshka representation")),
        ("embedding.dimensions", "embedding.send_dimensions"),
    ),
    Case(
        "401",
        1,
        StubReply(status=401, body=_error("Incorrect API key provided: sk-EXAMPLE-0000")),
        ("HTTP 401", "Incorrect API key", "embedding.api_key"),
    ),
    Case(
        "stall",
        1,
        StubReply(stall=3.0),
        ("no complete reply within 0.3 s", "2 attempts"),
        requests=2,
        transient=True,
    ),
]


class StubEmbeddings:
    """The server.

    ``requests`` holds the JSON bodies it got, ``headers`` the headers by lower-case name.
    """

    def __init__(
        self, *script: StubReply, dimension: int = 3, most: int | None = None, most_chars: int = 0
    ) -> None:
        """``most`` texts in one request and ``most_chars`` in one text; more are refused."""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._script = [reply for reply in script for _ in range(reply.times or 1)]
        self._endless = next((r for r in script if r.times is None), None)
        self._dimension, self._most, self._most_chars = dimension, most, most_chars
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                stub._answer(self, json.loads(self.rfile.read(size)))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.block_on_close = False
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def _next(self, request: dict[str, Any], headers: dict[str, str]) -> StubReply:
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            if self._script:
                return self._script.pop(0)
        return self._endless or self._proper(request["input"])

    def _proper(self, texts: list[str]) -> StubReply:
        if self._most is not None and len(texts) > self._most:
            return StubReply(400, _error(f"batch size should not be larger than {self._most}"))
        if self._most_chars and any(len(t) > self._most_chars for t in texts):
            return StubReply(400, _error("maximum context length is 512 tokens"))
        vectors = [
            [float(i % self._dimension == k) for k in range(self._dimension)]
            for i in range(len(texts))
        ]
        return StubReply(body=_data(*enumerate(vectors)))

    def _answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        reply = self._next(request, {k.lower(): v for k, v in handler.headers.items()})
        self._stopped.wait(reply.stall)
        text = reply.raw if reply.raw is not None else json.dumps(reply.body)
        payload = b"" if reply.raw is None and reply.body is None else text.encode()
        try:
            handler.send_response(reply.status)
            handler.send_header("Content-Type", reply.content_type)
            for name, value in reply.headers.items():
                handler.send_header(name, value)
            if not reply.drip:
                handler.send_header("Content-Length", str(len(payload)))
            handler.end_headers()
            deadline = time.monotonic() + 120
            while reply.drip and time.monotonic() < deadline and not self._stopped.is_set():
                handler.wfile.write(b" ")
                self._stopped.wait(reply.drip)
            handler.wfile.write(payload)
        except OSError:  # the client has hung up
            pass
