"""The HTTP service as a client meets it: a real server, a real client."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from http_service import FILES, Running, running, until_ready
from knowport import KnowledgeBase
from knowport.errors import EngineUnavailable
from support import make_folder, page

PROBLEM_KEYS = {
    "type",
    "title",
    "status",
    "detail",
    "code",
    "remedy",
    "transient",
    "request_id",
    "errors",
}
DOC = "kb/mysql/lock-wait.md"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Open, on loopback; tests leave it as they found it."""
    folder = tmp_path_factory.mktemp("http")
    roots = make_folder(folder / "roots", {"book/a.md": "# A\n\nAlpha zebra.\n"})
    with running(folder / "home", {"ingest_roots": [roots]}) as one:
        yield one


@pytest.fixture
def client(served: Running) -> httpx.Client:
    return served.client


def problem(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of a reply, after checking what every one must have."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    found = reply.json()
    assert set(found) == PROBLEM_KEYS
    assert (found["status"], found["code"]) == (status, code)
    assert found["type"] == f"urn:knowport:problem:{code}"
    assert found["detail"]
    assert found["remedy"]
    assert found["request_id"] == reply.headers["x-request-id"]
    return found


# -- lookups ----------------------------------------------------------------------------------


def test_a_lookup_answers_exactly_what_an_agent_gets(served: Running, client: httpx.Client) -> None:
    reply = client.post("/v1/lookup", json={"query": "ERROR 1205 (HY000)"})

    assert reply.status_code == 200
    answer = reply.json()
    assert list(answer) == [
        "found",
        "relevance_level",
        "lookup_id",
        "generation",
        "evidence",
        "withheld",
        "notices",
    ]
    assert answer["found"] is True
    first = answer["evidence"][0]
    assert first["document_id"] == f"{DOC}#chunk-0"
    assert "支付库报 ERROR 1205 (HY000)" in first["excerpt"]
    own = served.kb.lookup("ERROR 1205 (HY000)")
    assert [e["document_id"] for e in answer["evidence"]] == [e.document_id for e in own.evidence]


def test_nothing_found_is_an_answer(client: httpx.Client) -> None:
    reply = client.post("/v1/lookup", json={"query": "ERROR 1205", "category": "no-such"})

    assert reply.status_code == 200
    assert reply.json()["found"] is False
    assert [notice["code"] for notice in reply.json()["notices"]] == ["unknown_category"]


def test_a_lookup_leaves_a_trace_without_texts(client: httpx.Client) -> None:
    answer = client.post("/v1/lookup", json={"query": "cartridge HP-950XL"}).json()

    trace = client.get(f"/v1/lookups/{answer['lookup_id']}").json()

    assert trace["lookup_id"] == answer["lookup_id"]
    assert trace["found"] is True
    assert trace["candidates"][0]["document_id"] == "kb/notes.txt#chunk-0"
    assert "950XL" not in json.dumps(trace)
    problem(client.get("/v1/lookups/lk_none"), 404, "unknown_lookup")


def test_explain_says_why_a_document_is_not_in_the_answer(client: httpx.Client) -> None:
    asked = {"query": "ERROR 1205", "document_id": "kb/gone.md"}

    found = client.post("/v1/explain", json=asked).json()

    assert found["query"] == "ERROR 1205"
    assert found["document"]["reason"] == "not_in_index"
    assert found["answer"]["found"] is True


@pytest.mark.parametrize("query", ["", "   ", "\u3000", "x" * 50_000, "a\u0000b"])
def test_a_query_that_cannot_be_used_is_named(client: httpx.Client, query: str) -> None:
    reply = client.post("/v1/lookup", json={"query": query})

    if reply.status_code == 200:  # a NUL is left out of a query
        assert "\0" in query
    else:
        assert problem(reply, 422, "invalid_input")["errors"][0]["field"] == "query"


# -- documents --------------------------------------------------------------------------------


def test_a_document_comes_goes_and_comes_back_under_its_id(client: httpx.Client) -> None:
    where = {"id": "kb/new page #1.md"}
    text = {
        "content": "# New\n\nThe zebra crossing.\n",
        "headers": {"Content-Type": "text/markdown"},
    }

    new = client.put("/v1/documents", params=where, **text)
    again = client.put("/v1/documents", params=where, **text)
    found = client.post("/v1/lookup", json={"query": "zebra crossing"}).json()
    stored = client.get(new.headers["location"]).json()
    gone = client.delete("/v1/documents", params=where)

    assert (new.status_code, new.json()["outcome"], new.json()["reason"]) == (201, "indexed", "new")
    assert (again.status_code, again.json()["outcome"]) == (200, "unchanged")
    assert found["evidence"][0]["document_id"] == "kb/new page #1.md#chunk-0"
    assert (stored["doc_id"], stored["title"]) == ("kb/new page #1.md", "New")
    assert stored["text"] == "# New\n\nThe zebra crossing.\n"
    assert gone.json() == {"id": "kb/new page #1.md", "chunks_deleted": 1}
    problem(client.get("/v1/documents", params=where), 404, "unknown_document")
    problem(client.delete("/v1/documents", params=where), 404, "unknown_document")


def test_an_evidence_key_gives_its_chunk_and_nothing_else(client: httpx.Client) -> None:
    key = f"{DOC}#chunk-1"

    chunk = client.get(f"/v1/documents?id={quote(key, safe='')}").json()
    beyond = client.get("/v1/documents", params={"id": f"{DOC}#chunk-99"})

    assert (chunk["id"], chunk["doc_id"], chunk["chunk_index"]) == (key, DOC, 1)
    assert chunk["content"].startswith("## 处理") or "innodb_lock_waits" in chunk["content"]
    assert chunk["breadcrumb"] == "锁等待 > 处理"
    problem(beyond, 404, "unknown_document")


def test_json_text_and_a_file_in_a_form_give_the_same_document(client: httpx.Client) -> None:
    text = (
        "# 值班手册\n\n同一份文档，三种方式送来。数据库主从切换之后，先确认复制延迟，再恢复写入。\n"
    )
    ways: list[dict[str, Any]] = [
        {"json": {"id": "kb/same.md", "text": text, "title": "T", "category": "c"}},
        {
            "params": {"id": "kb/same.md", "title": "T", "category": "c"},
            "content": text.encode(),
            "headers": {"Content-Type": "text/markdown; charset=UTF-8"},
        },
        {
            "data": {"id": "kb/same.md", "title": "T", "category": "c"},
            "files": {"file": ("other.md", text.encode("gb18030"), "text/markdown")},
        },
    ]
    seen = []
    for way in ways:
        assert client.put("/v1/documents", **way).status_code in (200, 201)
        found = client.get("/v1/documents", params={"id": "kb/same.md"}).json()
        seen.append((found["text"], found["title"], found["category"], found["source"]))
        client.delete("/v1/documents", params={"id": "kb/same.md"})

    assert seen == [(text, "T", "c", "api")] * 3


def test_a_file_without_an_id_is_named_after_its_source_and_name(client: httpx.Client) -> None:
    files = {"file": ("页 1.md", b"# One\n\nbody\n")}

    done = client.put("/v1/documents", data={"source": "wiki"}, files=files).json()

    assert done["id"] == "wiki/页 1.md"
    client.request("DELETE", "/v1/documents", json={"id": "wiki/页 1.md"})


@pytest.mark.parametrize(
    "name", ["../evil.md", "/etc/cron.d/x.md", "....//evil.md", "..", "", "a.md/"]
)
def test_a_file_name_is_never_a_path(
    served: Running, client: httpx.Client, tmp_path: Path, name: str
) -> None:
    before = set(served.kb.settings.home.parent.rglob("*"))

    reply = client.put("/v1/documents", files={"file": (name, b"# X\n\nbody\n")})

    assert reply.status_code == 422, reply.text
    assert {p.name for p in set(served.kb.settings.home.parent.rglob("*")) - before} <= {
        "ledger.sqlite3-wal",
        "ledger.sqlite3-shm",
    }


def test_documents_come_in_pages_without_gaps_or_repeats(client: httpx.Client) -> None:
    seen: list[str] = []
    cursor, pages = None, 0
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        found = client.get("/v1/documents", params=params).json()
        seen += [document["doc_id"] for document in found["documents"]]
        pages += 1
        cursor = found["next_cursor"]
        if cursor is None:
            break

    assert seen == sorted(f"kb/{name}" for name in FILES)
    assert pages == 2
    one = client.get("/v1/documents", params={"category": "redis"}).json()
    assert [document["doc_id"] for document in one["documents"]] == ["kb/redis/failover.md"]
    assert one["next_cursor"] is None
    problem(client.get("/v1/documents", params={"cursor": "!"}), 422, "invalid_input")
    problem(client.get("/v1/documents", params={"limit": 501}), 422, "invalid_request")


def test_query_and_body_must_not_contradict_each_other(client: httpx.Client) -> None:
    reply = client.put("/v1/documents", params={"id": "a"}, json={"id": "b", "text": "x"})

    assert "id" in problem(reply, 400, "contradiction")["detail"]


def test_domains_are_set_and_forgotten(client: httpx.Client) -> None:
    catalogue = '[[domain]]\nid = "tools"\nnames = ["lathe"]\n'

    def put(**body: Any) -> httpx.Response:
        return client.put("/v1/domains", json={"source": "shed", **body})

    def domains() -> list[str]:
        return client.post("/v1/explain", json={"query": "lathe"}).json()["plan"]["domains"]

    assert put(catalogue=catalogue).json() == {"source": "shed", "domains": ["tools"]}
    for bad in ("[[domain", "x = 1", f"x = {'9' * 5000}", f"x = {'[' * 50_000}"):
        found = problem(put(catalogue=bad), 422, "invalid_input")
        assert found["errors"][0]["field"] == "catalogue"
        assert found["detail"].startswith("The catalogue ")
    for source in ("", "a" * 400, ".."):
        problem(put(catalogue=None, source=source), 422, "invalid_input")
    problem(put(), 422, "invalid_request")  # null is said
    assert domains() == ["tools"]
    assert put(catalogue=None).json() == {"source": "shed", "domains": []}
    assert domains() == []


# -- what is refused --------------------------------------------------------------------------

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"query": "a", "query": "b"}', 400, "duplicate_key"),
        (b'{"query": "a", "x": {"y": 1, "y": 2}}', 400, "duplicate_key"),
        (b"[" * 100_000, 400, "too_deep"),
        (b'{"query":' * 50_000 + b"1" + b"}" * 50_000, 400, "too_deep"),
        (b'{"query": "\xff"}', 400, "invalid_utf8"),
        (b'{"query": "\\ud800"}', 400, "invalid_unicode"),
        (b'{"query": NaN}', 400, "invalid_json"),
        (b'{"query": 1e999}', 400, "invalid_json"),
        (b'{"query": 1' + b"0" * 5_000 + b"}", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b'{"query": "a"} x', 400, "invalid_json"),
        (b"", 422, "invalid_request"),
        (b"null", 422, "invalid_request"),
        (b'"text"', 422, "invalid_request"),
        (b'{"query": 7}', 422, "invalid_request"),
        (b'{"query": "a", "top_k": 3}', 422, "invalid_request"),
    ],
)
def test_json_that_two_readers_would_read_differently_is_refused(
    client: httpx.Client, body: bytes, status: int, code: str
) -> None:
    problem(client.post("/v1/lookup", content=body, headers=JSON), status, code)


def test_every_framework_error_has_the_one_shape(client: httpx.Client) -> None:
    problem(client.get("/nothing"), 404, "unknown_route")
    problem(client.get("/v1/lookup/"), 404, "unknown_route")
    wrong_method = client.get("/v1/lookup")
    problem(wrong_method, 405, "method_not_allowed")
    assert wrong_method.headers["allow"] == "POST"
    plain = client.post("/v1/lookup", content="query=a")
    problem(plain, 415, "media_type")
    problem(
        client.put("/v1/documents", content=b"x", headers={"Content-Type": "image/png"}),
        415,
        "media_type",
    )
    no_boundary = {"Content-Type": "multipart/form-data"}
    problem(client.put("/v1/documents", content=b"x", headers=no_boundary), 400, "bad_request")
    gbk = {"Content-Type": "text/plain; charset=gbk"}
    problem(client.put("/v1/documents?id=a", content=b"x", headers=gbk), 415, "charset")
    bad = {"Content-Type": "text/plain"}
    problem(client.put("/v1/documents?id=a", content=b"\xff", headers=bad), 400, "invalid_utf8")


def test_an_error_is_never_as_long_as_what_it_is_about(client: httpx.Client) -> None:
    long = client.post("/v1/lookup", json={"query": "x", "category": "c\n" * 100_000})
    many = client.post("/v1/lookup", json={"query": "x", **{f"f{n}": 1 for n in range(5_000)}})

    assert len(problem(long, 422, "invalid_input")["detail"]) <= 1_001
    assert len(problem(many, 422, "invalid_request")["errors"]) == 50


def test_a_fault_of_ours_tells_its_request_id_and_nothing_else(
    served: Running, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret-detail-of-the-fault")

    monkeypatch.setattr(served.kb, "run_lookup", broken)

    reply = client.post("/v1/lookup", json={"query": "x"})

    assert "secret-detail" not in reply.text
    problem(reply, 500, "internal")
    assert client.get("/healthz").json() == {"status": "ok"}


# -- request ids, health, figures -------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ("trace-7.b_9", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("two words", False),
        ("a/b", False),
        ("kp_0123456789abcdefghij", False),
    ],
)
def test_a_sane_request_id_is_kept(client: httpx.Client, sent: str, taken: bool) -> None:
    reply = client.get("/healthz", headers={"X-Request-ID": sent})

    assert (reply.headers["x-request-id"] == sent) is taken
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", reply.headers["x-request-id"])


def test_ready_only_when_a_lookup_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowport.entrypoints.http.readiness.READY", 0.05)
    works = threading.Event()

    def probe(self: KnowledgeBase, *_: Any, **__: Any) -> None:
        if not works.is_set():
            raise EngineUnavailable("Milvus is away.", remedy="Start it.")

    monkeypatch.setattr(KnowledgeBase, "run_lookup", probe)
    with running(tmp_path / "home") as one:
        not_yet = one.client.get("/readyz")
        works.set()
        until_ready(one.client)
        works.clear()
        deadline = time.monotonic() + 120
        while (reply := one.client.get("/readyz")).status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)

        problem(not_yet, 503, "not_ready")
        assert "Milvus is away." in problem(reply, 503, "not_ready")["detail"]
        assert reply.headers["retry-after"] == "1"
        assert one.client.get("/healthz").status_code == 200


def test_status_tells_what_is_there(served: Running, client: httpx.Client) -> None:
    status = client.get("/v1/status").json()

    assert status["documents"] == len(FILES)
    assert status["home"] == str(served.kb.settings.home)
    assert status["kb_scope"] == "default"
    assert status["categories"] == ["mysql", "notes.txt", "redis"]


def test_figures_follow_what_was_done(client: httpx.Client) -> None:
    def value(name: str) -> float:
        text = client.get("/metrics").text
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
        return float(found[1]) if found else 0.0

    names = [
        'knowport_lookups_total{found="true",level="high"}',
        'knowport_lookup_step_seconds_count{step="embed"}',
        'knowport_lookup_attempts_total{attempt="unfiltered"}',
        'knowport_http_requests_total{method="POST",route="/v1/lookup",status="200"}',
        'knowport_errors_total{code="unknown_document"}',
        'knowport_ingest_files_total{outcome="indexed"}',
    ]
    before = [value(name) for name in names]

    answer = client.post("/v1/lookup", json={"query": "badge printer cartridge HP-950XL"}).json()
    client.get("/v1/documents", params={"id": "kb/none.md"})
    client.put("/v1/documents", json={"id": "kb/m.md", "text": page("M", ["one"])})
    client.delete("/v1/documents", params={"id": "kb/m.md"})

    after = [value(name) for name in names]
    assert answer["relevance_level"] == "high"
    assert [b - a for a, b in zip(before, after, strict=True)] == [1.0] * len(names)
