"""Rebuilds, audits and evidence over HTTP: what they take, whom they tell, what they refuse."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_service import GateEmbedder, Running, running
from rebuilds import doc_id, text_of
from support import mark, page

PAGES = {f"d{n:02}.md": text_of(n) for n in range(2)}
KEY = f"{doc_id(1)}#chunk-1"


@pytest.fixture
def gate() -> Iterator[GateEmbedder]:
    embedder = GateEmbedder()
    yield embedder
    embedder.gate.set()


def ended(client: httpx.Client, begun: httpx.Response) -> dict[str, Any]:
    """The job that a reply began, when it has ended."""
    assert begun.status_code == 202, begun.text
    deadline = time.monotonic() + 120
    while (job := client.get(begun.headers["location"]).json())["ended_at"] == "":
        assert time.monotonic() < deadline, job
        time.sleep(0.02)
    return dict(job)


def refused(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert reply.headers["content-type"] == "application/problem+json", reply.text
    assert (reply.status_code, reply.json()["code"]) == (status, code)
    return dict(reply.json())


# -- bodies ---------------------------------------------------------------------------------------


def test_a_body_whose_fields_are_all_optional_may_be_empty(tmp_path: Path) -> None:
    with running(tmp_path / "home", documents=PAGES) as one:
        client = one.client
        rebuilt = ended(client, client.post("/v1/generations"))
        back = ended(client, client.post("/v1/generations/rollback"))
        audited = ended(client, client.post("/v1/audit"))
        nothing = ended(client, client.post("/v1/generations/activate"))
        typed = client.post("/v1/audit", headers={"Content-Type": "application/json"})
        ended(client, typed)
        form = client.post("/v1/audit", content=b"a=1", headers={"Content-Type": "text/plain"})
        whole = client.post(
            "/v1/audit", content=b"null", headers={"Content-Type": "application/json"}
        )
        untyped = client.post("/v1/audit", content=b"{}")
        needed = client.post("/v1/lookup")

    assert rebuilt["result"]["switch"]["previous"] == "g1"
    assert back["result"]["generation"] == "g1"
    assert audited["result"] == {"documents": 2, "chunks": 8, "probed": 8, "findings": []}
    assert (nothing["state"], nothing["problem"]["code"]) == ("failed", "rebuild")
    refused(form, 415, "media_type")
    refused(whole, 422, "invalid_request")
    refused(untyped, 415, "media_type")
    refused(needed, 415, "media_type")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("audit", {"sample": -1}),
        ("audit", {"sample": "some"}),
        ("audit", {"sample": True}),
        ("audit", {"repair": "yes"}),
        ("generations", {"sample": 0}),
        ("generations", {"queries": "all"}),
        ("generations/verify", {"sample": 1.5}),
        ("generations/verify", {"switch": True}),
    ],
)
def test_what_a_body_may_not_say(scoped: Running, path: str, body: dict[str, Any]) -> None:
    with scoped.as_holder(scoped.key(role="admin")) as admin:
        refused(admin.post(f"/v1/{path}", json=body), 422, "invalid_request")


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ([], "queries holds no query."),
        ([{"text": " ", "documents": []}], "queries:1: 'text' is missing"),
        ([{"text": "a", "documents": []}, {"text": "b"}], "queries:2: neither 'documents'"),
        ([{"id": 1, "text": "a", "documents": []}] * 2, "queries:2: the id '1' stands"),
    ],
)
def test_labelled_questions_that_cannot_be_used_are_named(
    scoped: Running, queries: list[Any], said: str
) -> None:
    with scoped.as_holder(scoped.key(role="admin")) as admin:
        for path in ("generations", "generations/verify"):
            reply = admin.post(f"/v1/{path}", json={"queries": queries})
            problem = refused(reply, 422, "invalid_input")
            assert said in problem["detail"]


# -- one at a time --------------------------------------------------------------------------------


def test_a_second_rebuild_is_refused_and_told_which_job_is_at_it(
    tmp_path: Path, gate: GateEmbedder
) -> None:
    settings = {"chunking": {"size": 300}}
    with running(tmp_path / "home", documents=PAGES, embedder=gate) as one:
        assert one.kb.status().chunks == 8
    with running(tmp_path / "home", documents={}, embedder=gate, settings=settings) as one:
        client = one.client
        gate.gate.clear()
        first = client.post("/v1/generations", json={"switch": False})
        assert gate.held.wait(120)
        job = first.json()["job_id"]
        begun = [
            client.post(f"/v1/generations{step}")
            for step in ("", "/verify", "/activate", "/rollback")
        ]
        audited = client.post("/v1/audit")  # waits for its turn
        queued = client.get(audited.headers["location"]).json()
        stopped = client.post(f"/v1/jobs/{job}/cancel")
        still = client.post("/v1/generations")
        gate.gate.set()
        cancelled = ended(client, first)
        again = ended(client, client.post("/v1/generations"))
        ended(client, audited)

    for reply in begun:
        problem = refused(reply, 409, "rebuild")
        assert problem["detail"] == (
            "A rebuild is running, and only one at a time works on the generations."
        )
        assert problem["remedy"] == (
            f"Wait for it (GET /v1/jobs/{job}), or cancel it (POST /v1/jobs/{job}/cancel, or "
            "`knowport rebuild abort`)."
        )
        assert problem["transient"] is True
    assert queued["state"] == "queued"
    assert stopped.status_code == 202
    refused(still, 409, "rebuild")
    assert cancelled["state"] == "cancelled"
    assert again["result"]["switch"]["previous"] == "g1"


def test_a_verification_that_is_cancelled_stops_and_leaves_the_generation_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "home", documents=PAGES) as one:
        client, kb = one.client, one.kb
        ended(client, client.post("/v1/generations", json={"switch": False}))
        held, go_on = threading.Event(), threading.Event()
        finds = kb._parts.ledger.document_text

        def slow(name: str) -> Any:
            held.set()
            assert go_on.wait(120)
            return finds(name)

        monkeypatch.setattr(kb._parts.ledger, "document_text", slow)
        for path in ("/v1/generations/verify", "/v1/audit"):
            held.clear()
            go_on.clear()
            job = client.post(path)
            assert held.wait(120)
            client.post(f"{job.headers['location']}/cancel")
            go_on.set()
            done = ended(client, job)
            assert (done["state"], done["result"], done["problem"]) == ("cancelled", None, None)
        states = [g["state"] for g in client.get("/v1/generations").json()["generations"]]
        assert states == ["active", "built"]


def test_labelled_questions_are_asked_of_both_generations(tmp_path: Path) -> None:
    queries = [
        {"_id": "q0", "text": mark("first", 0, 1, 0), "documents": ["d00.md"]},
        {"query": mark("first", 1, 1, 0), "evidence": [{"document": doc_id(1)}]},
        {"text": "nothing", "documents": []},
    ]
    with running(tmp_path / "home", documents=PAGES) as one:
        client = one.client
        ended(client, client.post("/v1/generations", json={"switch": False}))
        asked = {"queries": queries, "sample": 3}
        verified = ended(client, client.post("/v1/generations/verify", json=asked))
        whole = ended(client, client.post("/v1/generations", json=asked))

    for report in (verified["result"]["report"], whole["result"]["verify"]["report"]):
        assert report["searched_for"] == 3
        assert report["judge"]["comparison"]["queries"] == 2
        assert report["judge"]["left_out"] == 1
    assert whole["result"]["switch"]["forced"] is False


# -- audits ---------------------------------------------------------------------------------------


def test_an_audit_is_a_job_that_is_done_also_where_something_is_wrong(tmp_path: Path) -> None:
    with running(tmp_path / "home", documents=PAGES) as one:
        client = one.client
        assert one.kb._parts.index is not None
        one.kb._parts.index.delete_by_doc_id(doc_id(1), from_index=3)
        found = ended(client, client.post("/v1/audit", json={"sample": 0}))
        repaired = ended(client, client.post("/v1/audit", json={"repair": True, "sample": "all"}))

    lost = {
        "code": "missing",
        "doc_id": doc_id(1),
        "key": f"{doc_id(1)}#chunk-3",
        "message": "It is not stored.",
    }
    assert (found["kind"], found["state"], found["problem"]) == ("audit", "done", None)
    assert found["result"] == {"documents": 2, "chunks": 7, "probed": 0, "findings": [lost]}
    assert found["progress"] == {"step": "confirm", "done": 1, "total": 1}
    assert repaired["result"] == {
        "before": {"documents": 2, "chunks": 7, "probed": 8, "findings": [lost]},
        "rewritten": [doc_id(1)],
        "deleted": [],
        "refused": {},
        "after": {"documents": 2, "chunks": 8, "probed": 8, "findings": []},
    }


# -- scopes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scoped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """``default`` and ``other`` hold a document each; a third one went from one to the other; a
    fourth is deleted in ``other``."""
    with running(tmp_path_factory.mktemp("scoped") / "home", documents=PAGES) as one:
        one.kb.put("there/own.md", page("Own", ["a", "b"]), kb_scope="other")
        one.kb.put("moved.md", page("Moved", ["x", "y", "z"]), kb_scope="default")
        one.kb.delete("moved.md")
        one.kb.put("moved.md", page("Moved", ["x"]), kb_scope="other")
        one.kb.put("there/gone.md", page("Gone", ["g"]), kb_scope="other")
        one.kb.delete("there/gone.md")
        one.key()
        yield one


def told(one: Running, scope: str, **query: str) -> dict[str, Any]:
    with one.as_holder(one.key(scope)) as client:
        reply = client.get("/v1/evidence", params=query)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def unknown(key: str) -> dict[str, Any]:
    return {"key": key, "state": "unknown", "to": [], "meanings": [], "ambiguous": False}


def test_evidence_of_the_own_scope(scoped: Running) -> None:
    current = told(scoped, "default", id=KEY)
    since = current["meanings"][0]["since"]
    assert current == {
        "key": KEY,
        "state": "current",
        "to": [KEY],
        "meanings": [
            {"generation": "g1", "since": since, "until": "", "state": "current", "to": [KEY]}
        ],
        "ambiguous": False,
    }
    assert told(scoped, "default", id=KEY, generation="g1", at=since) == current
    with scoped.as_holder(scoped.key("default")) as client:
        never = client.get("/v1/evidence", params={"id": KEY, "generation": "g2"})
    assert refused(never, 422, "invalid_input")["remedy"] == "This document stood in g1."
    assert told(scoped, "default", id=KEY, at="2001-01-01") == unknown(KEY)
    gone = told(scoped, "other", id="there/gone.md#chunk-0")
    assert (gone["state"], gone["to"]) == ("deleted", [])


@pytest.mark.parametrize("key", ["there/own.md#chunk-0", "there/gone.md#chunk-0"])
def test_evidence_of_another_scope_is_as_if_it_had_never_been(scoped: Running, key: str) -> None:
    assert told(scoped, "default", id=key) == unknown(key)
    assert told(scoped, "other", id=key)["state"] != "unknown"


def test_an_older_version_in_another_scope_is_not_told_either(scoped: Running) -> None:
    """It had three chunks in one scope, and has one in the other."""
    here = told(scoped, "default", id="moved.md#chunk-0")
    assert (here["state"], here["to"], len(here["meanings"])) == ("deleted", [], 1)
    assert told(scoped, "default", id="moved.md#chunk-2")["state"] == "deleted"
    there = told(scoped, "other", id="moved.md#chunk-0")
    assert (there["state"], len(there["meanings"])) == ("current", 1)
    assert there["meanings"][0]["since"] >= here["meanings"][0]["until"]
    assert told(scoped, "other", id="moved.md#chunk-2") == unknown("moved.md#chunk-2")


def test_evidence_takes_a_key_and_no_other_scope(scoped: Running) -> None:
    with scoped.as_holder(scoped.key()) as client:
        wrong = client.get("/v1/evidence", params={"id": doc_id(1)})
        none = client.get("/v1/evidence")
        foreign = client.get("/v1/evidence", params={"id": KEY, "kb_scope": "other"})

    refused(wrong, 422, "invalid_input")
    refused(none, 422, "invalid_request")
    refused(foreign, 404, "unknown_scope")
    refused(scoped.client.get("/v1/evidence", params={"id": KEY}), 401, "unauthorized")


def test_a_job_over_all_scopes_is_there_for_admins_only(scoped: Running) -> None:
    """What it found, and how it fared, names documents of all scopes."""
    keys = {role: scoped.key(role=role) for role in ("reader", "writer", "admin")}
    with (
        scoped.as_holder(keys["reader"]) as reader,
        scoped.as_holder(keys["writer"]) as writer,
        scoped.as_holder(keys["admin"]) as admin,
    ):
        begun = admin.post("/v1/audit")
        path = begun.headers["location"]
        for lesser in (reader, writer):
            refused(lesser.post("/v1/audit"), 403, "forbidden")
            refused(lesser.get(path), 404, "unknown_job")
            refused(lesser.get(f"{path}/events"), 404, "unknown_job")
            assert lesser.get("/v1/jobs").json() == {"jobs": []}
        refused(writer.post(f"{path}/cancel"), 404, "unknown_job")
        done = ended(admin, begun)
        assert done["result"]["documents"] == 4
        assert done in admin.get("/v1/jobs").json()["jobs"]
