"""Long work over HTTP: ingests and rebuilds as jobs, watched and cancelled."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_service import FILES, Running, running
from knowport.adapters.ledger.tables import vectors
from knowport.bootstrap import rebuilding
from knowport.entrypoints.http.jobs import Job, Reporter, Stopped, Work
from knowport.model import Matrix
from support import HashEmbedder, make_folder, mark

ENDED = {"done", "failed", "cancelled"}


class GateEmbedder(HashEmbedder):
    """Embeds documents that hold "HOLD" only when ``gate`` is open."""

    def __init__(self) -> None:
        super().__init__(batch_size=4)
        self.gate = threading.Event()
        self.held = threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if any("HOLD" in text for text in texts) and not self.gate.is_set():
            self.held.set()
            assert self.gate.wait(120)
        return super().embed_documents(texts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {f"{n:02}.md": f"# P{n}\n\nHOLD {mark(n)}\n" for n in range(40)}
    return make_folder(tmp_path / "roots" / "book", {"a.md": "# A\n\nAlpha.\n", **files})


@pytest.fixture
def gate() -> GateEmbedder:
    return GateEmbedder()


@pytest.fixture
def served(tmp_path: Path, folder: Path, gate: GateEmbedder) -> Iterator[Running]:
    with running(tmp_path / "home", {"ingest_roots": [folder.parent]}, embedder=gate) as one:
        try:
            yield one
        finally:
            gate.gate.set()


def begin(client: httpx.Client, path: str, body: Any = None) -> dict[str, Any]:
    reply = client.post(path, **({} if body is None else {"json": body}))
    assert reply.status_code == 202, reply.text
    job: dict[str, Any] = reply.json()
    assert reply.headers["location"] == f"/v1/jobs/{job['job_id']}"
    assert job["state"] in {"queued", "running"}
    return job


def ended(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while (now := client.get(f"/v1/jobs/{job['job_id']}").json())["state"] not in ENDED:
        assert time.monotonic() < deadline, now
        time.sleep(0.02)
    return now


def events(client: httpx.Client, job: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Name and data of each server-sent event, until the stream ends."""
    found, name = [], ""
    with client.stream("GET", f"/v1/jobs/{job['job_id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                found.append((name, json.loads(value)))
    return found


def test_an_ingest_is_watched_to_its_end(served: Running, gate: GateEmbedder, folder: Path) -> None:
    client = served.client
    job = begin(client, "/v1/ingest", {"path": str(folder), "category_from_folder": True})
    assert gate.held.wait(120)
    seen: list[tuple[str, dict[str, Any]]] = []
    watcher = threading.Thread(target=lambda: seen.extend(events(client, job)))
    watcher.start()
    time.sleep(0.3)
    gate.gate.set()
    watcher.join(120)

    names = [name for name, _ in seen]
    assert names[:-1] == ["progress"] * (len(names) - 1)
    assert len(names) > 1
    assert names[-1] == "done"
    assert {data["job_id"] for _, data in seen} == {job["job_id"]}
    done = seen[-1][1]
    assert (done["kind"], done["state"], done["problem"]) == ("ingest", "done", None)
    assert done["result"]["counts"]["indexed"] == 41
    assert done["created_at"] <= done["started_at"] <= done["ended_at"]
    assert set(done["progress"]) >= {"files_done", "files_total", "bytes_done", "chunks_done"}
    found = client.get("/v1/documents", params={"id": "book/00.md"}).json()
    assert found["source"] == "book"
    assert ended(client, job) == done
    assert events(client, job) == [("done", done)]  # whoever comes late still hears the end
    assert client.get("/v1/jobs").json()["jobs"] == [done]
    assert 'knowport_ingest_files_total{outcome="indexed"} 41.0' in client.get("/metrics").text


def test_a_cancelled_ingest_stops_and_keeps_what_it_did(
    served: Running, gate: GateEmbedder, folder: Path
) -> None:
    client = served.client
    job = begin(client, "/v1/ingest", {"path": str(folder)})
    assert gate.held.wait(120)

    asked = client.post(f"/v1/jobs/{job['job_id']}/cancel")
    gate.gate.set()
    done = ended(client, job)

    assert asked.status_code == 202
    assert done["state"] == "cancelled"
    assert done["result"]["interrupted"] is True
    assert client.get("/v1/status").json()["unfinished"] == 0
    again = ended(client, begin(client, "/v1/ingest", {"path": str(folder)}))
    assert sum(again["result"]["counts"].values()) == 41


def test_jobs_wait_for_each_other_and_one_that_waits_is_cancelled_at_once(
    served: Running, gate: GateEmbedder, folder: Path
) -> None:
    client = served.client
    first = begin(client, "/v1/ingest", {"path": str(folder)})
    assert gate.held.wait(120)
    second = begin(client, "/v1/ingest", {"path": str(folder / "a.md"), "source": "second"})

    client.post(f"/v1/jobs/{second['job_id']}/cancel")
    waited = client.get(f"/v1/jobs/{second['job_id']}").json()
    gate.gate.set()

    assert (waited["state"], waited["started_at"], waited["result"]) == ("cancelled", "", None)
    assert ended(client, first)["state"] == "done"
    time.sleep(0.1)
    assert client.get("/v1/documents", params={"id": "second/a.md"}).status_code == 404


def test_too_many_jobs_are_turned_away(tmp_path: Path, gate: GateEmbedder, folder: Path) -> None:
    limits = {"ingest_roots": [folder.parent], "job_queue": 1}
    with running(tmp_path / "home", limits, embedder=gate) as one:
        begun = [one.client.post("/v1/ingest", json={"path": str(folder)}) for _ in range(4)]
        gate.gate.set()

    assert [reply.status_code for reply in begun] == [202, 202, 503, 503]
    assert begun[-1].json()["code"] == "overloaded"


def test_a_job_that_fails_says_why(served: Running, tmp_path: Path) -> None:
    bad = make_folder(tmp_path / "roots" / "bad", {"a.md": "x", "domains.toml": "not = [toml"})

    job = ended(served.client, begin(served.client, "/v1/ingest", {"path": str(bad)}))

    assert job["state"] == "failed"
    assert job["result"] is None
    assert job["problem"]["code"] == "configuration"
    assert "domains.toml" in job["problem"]["detail"]
    assert set(job["problem"]) >= {"type", "title", "status", "remedy", "request_id"}


def finished(job: Job) -> Job:
    deadline = time.monotonic() + 120
    while job.state not in ENDED:
        assert time.monotonic() < deadline, job.state
        time.sleep(0.01)
    return job


def started(one: Running, work: Work, **more: Any) -> Job:
    """A job of the service's that does that work."""

    async def start() -> Job:
        return one.service.jobs.start("test", work, kb_scope=None, **more)

    loop = one.service._loop
    assert loop is not None
    return asyncio.run_coroutine_threadsafe(start(), loop).result(10)


def cancelled(one: Running, job: Job) -> None:
    async def cancel() -> None:
        one.service.jobs.cancel(job)

    loop = one.service._loop
    assert loop is not None
    asyncio.run_coroutine_threadsafe(cancel(), loop).result(10)


def test_a_job_whose_work_came_back_whole_is_done_however_late_it_was_cancelled(
    served: Running,
) -> None:
    at_work, go_on = threading.Event(), threading.Event()

    def held(reporter: Reporter) -> None:
        at_work.set()
        assert go_on.wait(120)
        assert reporter.stopped()

    def whole(reporter: Reporter) -> dict[str, Any]:
        held(reporter)
        return {"n": 1}

    def stopped(reporter: Reporter) -> dict[str, Any]:
        held(reporter)
        raise Stopped({"n": 2})

    def nothing(reporter: Reporter) -> dict[str, Any]:
        held(reporter)
        reporter.go_on()
        raise AssertionError

    ends: list[tuple[str, Any]] = []
    for work in (whole, stopped, nothing):
        at_work.clear()
        go_on.clear()
        job = started(served, work)
        assert at_work.wait(120)
        cancelled(served, job)
        assert job.state == "running"
        go_on.set()
        ends.append((finished(job).state, job.result))
    assert ends == [("done", {"n": 1}), ("cancelled", {"n": 2}), ("cancelled", None)]


def test_a_job_that_has_begun_does_not_end_before_its_work(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the cancel comes before it is told that it runs."""
    at_work, go_on = threading.Event(), threading.Event()

    def work(_: Reporter) -> dict[str, Any]:
        at_work.set()
        assert go_on.wait(120)
        return {}

    told: list[Any] = []
    real = Reporter.change
    monkeypatch.setattr(Reporter, "change", lambda self, **values: told.append((self, values)))
    job = started(served, work)
    assert at_work.wait(120)
    cancelled(served, job)  # before the loop hears that it runs
    assert job.state == "queued"
    go_on.set()
    while len(told) < 2:
        time.sleep(0.01)
    for reporter, values in told:
        real(reporter, **values)
    assert finished(job).state == "done"


# -- rebuilds ---------------------------------------------------------------------------------


def test_an_index_is_rebuilt_and_rolled_back_while_it_answers(tmp_path: Path) -> None:
    with running(tmp_path / "home") as one:
        client = one.client

        def answers() -> str:
            answer = client.post("/v1/lookup", json={"query": "ERROR 1205 (HY000)"}).json()
            assert answer["evidence"][0]["document_id"] == "kb/mysql/lock-wait.md#chunk-0"
            return str(answer["generation"])

        first = answers()
        built = ended(client, begin(client, "/v1/generations", {"switch": False}))
        assert built["state"] == "done", built
        assert built["result"]["build"]["documents"] == len(FILES)
        assert answers() == first
        early = ended(client, begin(client, "/v1/generations/activate", {}))
        assert (early["state"], early["problem"]["code"]) == ("failed", "rebuild")
        assert early["problem"]["status"] == 409
        verified = ended(client, begin(client, "/v1/generations/verify"))
        assert verified["result"]["passed"] is True
        switched = ended(client, begin(client, "/v1/generations/activate", {}))
        second = switched["result"]["generation"]
        assert answers() == second != first
        states = {
            g["name"]: g["state"] for g in client.get("/v1/generations").json()["generations"]
        }
        assert states == {first: "previous", second: "active"}
        back = ended(client, begin(client, "/v1/generations/rollback", {}))
        assert back["result"]["generation"] == first == answers()
        dropped = client.delete(f"/v1/generations/{second}")
        assert dropped.status_code == 200, dropped.text
        refused = client.delete(f"/v1/generations/{first}")
        assert (refused.status_code, refused.json()["code"]) == (409, "rebuild")
        nothing = client.post("/v1/generations/abort")
        assert (nothing.status_code, nothing.json()["code"]) == (409, "rebuild")
        whole = ended(client, begin(client, "/v1/generations", {}))
        assert whole["result"]["switch"]["generation"] == answers()
        assert 'knowport_rebuild_seconds_count{outcome="done",step="rebuild"} 2.0' in (
            client.get("/metrics").text
        )


def test_a_cancel_that_comes_with_the_switch_comes_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job says what was done, not what was asked for."""
    switched, go_on = threading.Event(), threading.Event()

    def follow_alias(*_: Any) -> None:
        switched.set()
        assert go_on.wait(120)

    with running(tmp_path / "home") as one:
        client = one.client
        monkeypatch.setattr(rebuilding, "follow_alias", follow_alias)
        for path in ("/v1/generations", "/v1/generations/rollback"):
            switched.clear()
            go_on.clear()
            job = begin(client, path, {})
            assert switched.wait(120)
            client.post(f"/v1/jobs/{job['job_id']}/cancel")
            go_on.set()
            done = ended(client, job)
            assert done["state"] == "done", path
            assert (done["result"].get("switch") or done["result"])["generation"] == (
                client.get("/v1/status").json()["generation"]
            )


@pytest.mark.parametrize("body", [{}, {"switch": False}])
def test_a_rebuild_that_is_cancelled_tells_how_far_it_came(
    served: Running, gate: GateEmbedder, folder: Path, body: dict[str, Any]
) -> None:
    client = served.client
    gate.gate.set()
    ended(client, begin(client, "/v1/ingest", {"path": str(folder)}))
    gate.gate.clear()
    with served.kb._parts.ledger._write() as connection:  # so that the rebuild has to embed
        connection.execute(vectors.delete())
    job = begin(client, "/v1/generations", body)
    assert gate.held.wait(120)
    client.post(f"/v1/jobs/{job['job_id']}/cancel")
    gate.gate.set()
    done = ended(client, job)
    assert done["state"] == "cancelled"
    assert done["result"]["build"]["stopped"] is True
    assert done["result"]["switch"] is None
    again = ended(client, begin(client, "/v1/generations", {}))
    assert (again["state"], bool(again["result"]["switch"])) == ("done", True)


def test_ingests_go_on_while_a_rebuild_is_held_up(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Audits wait for it, and so does the end of the service."""
    at_work, go_on = threading.Event(), threading.Event()

    def follow_alias(*_: Any) -> None:
        at_work.set()
        assert go_on.wait(120)

    limits = {"ingest_roots": [folder.parent], "job_queue": 1}
    with running(tmp_path / "home", limits) as one:
        client = one.client
        monkeypatch.setattr(rebuilding, "follow_alias", follow_alias)
        rebuild = begin(client, "/v1/generations", {})
        assert at_work.wait(120)
        assert client.post("/v1/generations/verify", json={}).status_code == 409
        ingested = ended(client, begin(client, "/v1/ingest", {"path": str(folder)}))
        assert (ingested["state"], ingested["result"]["counts"]["indexed"]) == ("done", 41)
        audit = begin(client, "/v1/audit", {})  # which the switch would end
        assert client.get(f"/v1/jobs/{audit['job_id']}").json()["state"] == "queued"
        assert client.post("/v1/audit", json={}).status_code == 503
        assert client.get(f"/v1/jobs/{rebuild['job_id']}").json()["state"] == "running"
        figures = client.get("/metrics").text
        assert 'knowport_pool_calls{pool="upkeep"} 2.0' in figures
        assert 'knowport_pool_refused{pool="upkeep"} 1.0' in figures
        job = one.service.jobs.under_way({"rebuild"})
        assert job is not None
        threading.Timer(0.5, go_on.set).start()
    assert job.state == "done"
