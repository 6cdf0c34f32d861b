"""A key is said nowhere: not in the log, in a trace, in an error, in a figure, in a span."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sqlite3
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from http_service import Serving, read_all, running, until_ready
from knowport.core.redaction import Redactor
from knowport.entrypoints.http import observe
from stub_embeddings import StubEmbeddings, StubReply
from support import driver, knowport

EMBEDDING_KEY = "sk-hunter2-of-the-endpoint"
FILE = {"file": ("a.md", b"x")}
JSON = {"Content-Type": "application/json"}


def everywhere(url: str, key: str) -> list[httpx.Response]:
    """Replies to requests that carry the key in every place that a request has."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(f"GET /{key} HTTP/1.1\r\nHost: localhost\r\n{key} {key}: 1\r\n\r\n".encode())
        not_http = read_all(raw)
    assert b"invalid_http" in not_http
    assert key.encode() not in not_http
    good = {"Authorization": f"Bearer {key}"}
    in_json = json.dumps({"query": f"ERROR 1205 Authorization: Bearer {key}"})
    requests: list[tuple[str, str, dict[str, object]]] = [
        ("POST", "/v1/lookup", {"content": in_json, "headers": good | JSON}),
        ("POST", f"/v1/lookup?api_key={key}", {"content": in_json, "headers": good | JSON}),
        ("POST", "/v1/lookup", {"json": {"query": "x", "category": key}, "headers": good}),
        ("POST", "/v1/lookup", {"json": {"query": "x", "kb_scope": key}, "headers": good}),
        ("POST", "/v1/lookup", {"json": {"query": "x", key: 1}, "headers": good}),
        ("POST", "/v1/lookup", {"json": {"query": "x", "mode": key}, "headers": good}),
        ("POST", "/v1/lookup", {"content": f'{{"{key}": 1, "{key}": 2}}', "headers": good | JSON}),
        ("POST", "/v1/lookup", {"content": f"{{ {key}", "headers": good | JSON}),
        ("POST", "/v1/lookup", {"content": key, "headers": good | {"Content-Type": key}}),
        ("GET", f"/v1/lookups/{key}", {"headers": good}),
        ("GET", f"/v1/jobs/{key}", {"headers": good}),
        ("GET", f"/v1/documents?id={key}", {"headers": good}),
        ("GET", f"/v1/documents?id={key}%23chunk-0", {"headers": good}),
        ("GET", f"/v1/documents?cursor={key}", {"headers": good}),
        ("GET", f"/v1/documents?limit={key}", {"headers": good}),
        ("DELETE", f"/v1/documents?id={key}", {"headers": good}),
        ("PUT", f"/v1/documents?id=/{key}", {"json": {"text": "x"}, "headers": good}),
        ("PUT", "/v1/documents", {"files": {"file": (f"../{key}", b"x")}, "headers": good}),
        (
            "PUT",
            "/v1/documents",
            {"data": {key: "x"}, "files": {"file": ("a.md", b"x")}, "headers": good},
        ),
        ("POST", "/v1/ingest", {"json": {"path": f"/{key}"}, "headers": good}),
        ("DELETE", f"/v1/generations/{key}", {"headers": good}),
        ("GET", f"/{key}", {"headers": good}),
        (key, "/v1/status", {"headers": good}),
        ("GET", "/v1/status", {"headers": good | {"X-Request-ID": key}}),
        ("GET", "/v1/status", {"headers": good | {"Host": f"{key}.example"}}),
        ("GET", "/v1/status", {"headers": good | {"Origin": f"http://{key}.example"}}),
        ("GET", "/v1/status", {"headers": {"Authorization": key}}),
        ("GET", "/v1/status", {"headers": {"Authorization": f"Bearer {key}x"}}),
        ("GET", "/v1/status", {"headers": {"Authorization": f"Basic {key}"}}),
    ]
    replies = []
    with httpx.Client(base_url=url, timeout=30) as client:
        until_ready(client)
        for method, path, more in requests:
            replies.append(client.request(method, path, **more))
        replies.append(client.get("/metrics", headers=good))
    return replies


class Collector:
    """Takes what is exported over OTLP."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.got.append((self.path, body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_key_is_said_nowhere(tmp_path: Path) -> None:
    """Debug logging on, texts kept in traces, spans exported, and an endpoint that repeats its own
    key."""
    home = tmp_path / "home"
    made = knowport("keys", "create", "--scope=default", "--role=admin", "--json", home=home)
    key = json.loads(made.stdout)["key"]
    said = {"error": {"message": f"Incorrect API key: {EMBEDDING_KEY}; Bearer {EMBEDDING_KEY}"}}
    with StubEmbeddings(StubReply(401, said)) as stub, Collector() as collector:
        process = Serving(tmp_path).start(
            home,
            hash_embedder=False,
            KNOWPORT_SERVER__LOG_LEVEL="debug",
            KNOWPORT_TRACE__CONTENT="true",
            KNOWPORT_EMBEDDING__PROVIDER="openai",
            KNOWPORT_EMBEDDING__BASE_URL=stub.base_url,
            KNOWPORT_EMBEDDING__MODEL="m",
            KNOWPORT_EMBEDDING__DIMENSIONS="3",
            KNOWPORT_EMBEDDING__API_KEY=EMBEDDING_KEY,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_BSP_SCHEDULE_DELAY="100",
        )
        replies = everywhere(process.url, key)
        with httpx.Client(base_url=process.url, timeout=30) as client:
            good = {"Authorization": f"Bearer {key}"}
            put = client.put("/v1/documents?id=a", json={"text": "x"}, headers=good)
            dense = client.post("/v1/lookup", json={"query": "x", "mode": "dense"}, headers=good)
            traced = client.post("/v1/lookup", json={"query": f"x {key}"}, headers=good)
            trace = client.get(f"/v1/lookups/{traced.json()['lookup_id']}", headers=good)
        time.sleep(0.5)  # for the last spans
        process.tell(signal.SIGTERM)
        assert driver().ended() == 0
    spans = b"".join(body for path, body in collector.got if path == "/v1/traces")
    with contextlib.closing(sqlite3.connect(home / "ledger.sqlite3")) as ledger:
        traces = [row[0] for row in ledger.execute("SELECT trace FROM traces")]

    statuses = {reply.status_code for reply in replies}
    assert {200, 400, 401, 403, 404, 415, 422} <= statuses
    assert not any(status >= 500 for status in statuses)
    assert put.json()["code"] == "embedding"
    assert trace.json()["query"] == "x ***"
    assert len(traces) >= 2
    everything = {
        "log": process.stderr.read_text(),
        "output": process.stdout.read_text(),
        "traces": "".join(traces),
        "spans": spans.decode("latin-1"),
        "replies": "".join(f"{r.headers}{r.text}" for r in [*replies, put, dense, trace]),
    }
    for place, text in everything.items():
        assert key not in text, place
        assert key[3:] not in text, place
        assert EMBEDDING_KEY not in text, place
    assert "***" in everything["replies"]
    for name in (b"POST /v1/lookup", b"knowport.lookup.search", b"service.name", b"knowport"):
        assert name in spans
    assert len(process.log()) > len(replies)


def test_a_span_of_a_request_names_its_route_and_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(observe, "_TRACER", provider.get_tracer("knowport"))
    with running(tmp_path / "home") as one:
        key = one.key(role="admin")
        everywhere(one.url, key)
        spans = exporter.get_finished_spans()

    text = "".join(span.to_json() for span in spans)
    assert key not in text
    assert key[3:] not in text
    assert {"POST /v1/lookup", "GET /v1/lookups/{lookup_id}", "GET (unmatched)"} <= {
        span.name for span in spans
    }
    lookups = [span for span in spans if span.name == "POST /v1/lookup"]
    assert {(span.attributes or {})["http.response.status_code"] for span in lookups} >= {200, 422}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("kp_0123456789abcdef is wrong", "*** is wrong"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("authorization=Basic dXNlcjpwYXNz", "authorization=Basic ***"),
        ("postgresql://knowport:hunter22@db/kb", "postgresql://knowport:***@db/kb"),
        ('{"token": "pass\\"word\\u00e9"}', '{"token": "***"}'),
        ("kp_ and kp_x are no keys", "kp_ and kp_x are no keys"),
        ("the bearer of this", "the bearer of this"),
        ("http://localhost:8765/v1", "http://localhost:8765/v1"),
    ],
)
def test_secrets_are_masked_and_nothing_else(text: str, left: str) -> None:
    assert Redactor(['pass"wordé', "abc"])(text) == left
