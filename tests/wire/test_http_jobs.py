"""Long work over HTTP: ingests and rebuilds as jobs, watched and cancelled."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_service import FILES, Running, running
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
            assert self.gate.wait(30)
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
    deadline = time.monotonic() + 30
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
    assert gate.held.wait(20)
    seen: list[tuple[str, dict[str, Any]]] = []
    watcher = threading.Thread(target=lambda: seen.extend(events(client, job)))
    watcher.start()
    time.sleep(0.3)
    gate.gate.set()
    watcher.join(30)

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
    assert gate.held.wait(20)

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
    assert gate.held.wait(20)
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
