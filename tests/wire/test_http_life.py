"""The service as a process: how it begins, what it writes, how it ends, and what is left of it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from http_service import FILES, Serving, until_ready
from knowport.client import Client, ServiceUnavailable
from knowport.errors import EngineUnavailable
from support import children_of, driver, knowport, make_folder, mark

QUERY = {"query": "ERROR 1205 (HY000)"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("life")
    files = make_folder(folder / "kb", FILES)
    done = knowport("ingest", files, home=folder / "home", hash_embedder=True)
    assert done.returncode == 0, done.stderr
    return folder / "home"


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path)


def test_it_says_where_it_listens_and_how_to_try_it(serving: Serving, home: Path) -> None:
    process = serving.start(home)
    with httpx.Client(base_url=process.url) as client:
        until_ready(client)
        found = client.post("/v1/lookup", json=QUERY, headers={"X-Request-ID": "mine-1"})
    said = json.loads((home / "server.json").read_text())
    process.tell(signal.SIGTERM)

    assert driver().ended() == 0
    assert found.json()["found"] is True
    assert said == {"pid": process.pid, "url": process.url}
    assert not (home / "server.json").exists()
    out = process.stdout.read_text()
    assert f"curl {process.url}/v1/lookup" in out
    assert "/openapi.json" in out
    lines = [line for line in process.log() if line.get("request_id") == "mine-1"]
    assert [(li["event"], li["route"], li["status"]) for li in lines] == [
        ("request", "/v1/lookup", 200)
    ]
    assert lines[0]["timestamp"].endswith("Z")


# -- how it ends ------------------------------------------------------------------------------


def test_it_ends_when_its_engine_was_killed_and_starts_again(serving: Serving, home: Path) -> None:
    process = serving.start(home)
    with httpx.Client(base_url=process.url) as client:
        until_ready(client)
    engine = engine_of(process.pid)
    os.kill(engine, signal.SIGKILL)

    assert driver().ended() == EngineUnavailable.exit_code
    assert "The embedded engine has ended" in process.stderr.read_text()

    process = serving.start(home)
    with httpx.Client(base_url=process.url) as client:
        until_ready(client)
        assert client.post("/v1/lookup", json=QUERY).json()["found"] is True
    process.tell(signal.SIGTERM)
    assert driver().ended() == 0


def test_a_signal_to_the_whole_group_is_no_failure_of_the_engine(
    serving: Serving, home: Path
) -> None:
    process = serving.start(home)
    with httpx.Client(base_url=process.url) as client:
        until_ready(client)
    engine = engine_of(process.pid)

    process.tell(signal.SIGTERM)
    os.kill(engine, signal.SIGTERM)

    assert driver().ended() == 0


def engine_of(process: int) -> int:
    [engine] = [pid for pid, command in children_of(process).items() if "milvus" in command]
    return engine


@pytest.mark.parametrize("keep_alive", [True, False])
def test_every_request_that_was_taken_is_answered_when_it_is_told_to_end(
    serving: Serving, home: Path, keep_alive: bool
) -> None:
    process = serving.start(home, KNOWPORT_SERVER__DRAIN_SECONDS="0.5")
    outcomes: Counter[str] = Counter()
    guard, stop = threading.Lock(), threading.Event()
    limits = httpx.Limits(max_keepalive_connections=100 if keep_alive else 0)

    def ask() -> None:
        with httpx.Client(base_url=process.url, timeout=30, limits=limits) as client:
            while not stop.is_set():
                try:
                    outcome = str(client.post("/v1/lookup", json=QUERY).status_code)
                except httpx.ConnectError:
                    outcome = "not connected"
                except httpx.ReadError:
                    outcome = "reset"  # in the backlog of the socket when it was closed
                except httpx.RemoteProtocolError:
                    outcome = "no reply"
                with guard:
                    outcomes[outcome] += 1
                if not outcome.isdigit():
                    return

    with httpx.Client(base_url=process.url) as client:
        until_ready(client)
    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    while outcomes["200"] < 50 and any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
    process.tell(signal.SIGTERM)
    code = driver().ended()
    stop.set()
    for thread in threads:
        thread.join(120)

    logged = Counter(
        str(line["status"])
        for line in process.log()
        if line["event"] == "request" and line["route"] == "/v1/lookup"
    )
    assert code == 0
    assert outcomes["200"] >= 50
    assert logged == {"200": outcomes["200"]}  # whatever it took, a client got
    assert outcomes["no reply"] == 0


def test_it_is_not_ready_any_more_while_it_ends(serving: Serving, home: Path) -> None:
    process = serving.start(home, KNOWPORT_SERVER__DRAIN_SECONDS="5")
    with httpx.Client(base_url=process.url) as client:
        until_ready(client)
        process.tell(signal.SIGTERM)
        while (reply := client.get("/readyz")).status_code == 200:
            time.sleep(0.01)
        answered = client.post("/v1/lookup", json=QUERY)

    assert driver().ended() == 0
    assert (reply.status_code, reply.json()["code"]) == (503, "draining")
    assert reply.headers["connection"] == "close"
    assert answered.status_code == 200


def test_killed_it_starts_again_clean(serving: Serving, home: Path) -> None:
    process = serving.start(home)

    def put_without_end() -> None:
        with Client(process.url, retries=0) as client:
            for number in itertools.count():
                client.put(f"kill/{number % 7}.md", f"# P\n\n{mark(number)}\n", source="kill")

    threading.Timer(0.7, lambda: process.tell(signal.SIGKILL)).start()
    with pytest.raises(ServiceUnavailable):
        put_without_end()
    assert driver().ended() == -signal.SIGKILL
    assert (home / "server.json").exists()

    again = serving.start(home)
    with Client(again.url) as client:
        status = client.status()
        documents = list(client.documents())
        found = client.lookup("ERROR 1205 (HY000)")
        for info in documents:
            if info.source == "kill":
                client.delete(info.doc_id)
    said = json.loads((home / "server.json").read_text())
    again.tell(signal.SIGTERM)

    assert driver().ended() == 0
    assert status.unfinished == 0
    assert status.chunks == sum(info.chunk_count for info in documents)
    assert {info.state for info in documents} == {"indexed"}
    assert found.found
    assert said["url"] == again.url


def test_a_job_is_asked_to_stop_and_what_it_did_stays(
    serving: Serving, home: Path, tmp_path: Path
) -> None:
    files = {f"{n:04}.md": f"# P{n}\n\n" + f"{mark(n)}\n" * 40 for n in range(1_500)}
    folder = make_folder(tmp_path / "many", files)
    process = serving.start(home, KNOWPORT_SERVER__INGEST_ROOTS=json.dumps([str(tmp_path)]))
    with Client(process.url) as client:
        job = client.ingest(str(folder), source="many")
        while client.job(job.job_id).state != "running":
            time.sleep(0.01)
        time.sleep(0.5)
        process.tell(signal.SIGTERM)
        ended = driver().ended()

    assert ended == 0
    again = serving.start(home)
    with Client(again.url) as client:
        assert client.status().unfinished == 0
        assert client.lookup("ERROR 1205 (HY000)").found
    again.tell(signal.SIGTERM)
    assert driver().ended() == 0


def test_health_answers_at_once_while_a_table_of_thirty_thousand_rows_comes_in(
    serving: Serving, home: Path, tmp_path: Path
) -> None:
    rows = "".join(f"| svc-{n} | {n + 1000} | 10.0.{n % 250}.{n % 199} |\n" for n in range(30_000))
    table = f"# Ports\n\n| service | port | host |\n|---|---|---|\n{rows}"
    folder = make_folder(tmp_path / "table", {"ports.md": table})
    process = serving.start(home, KNOWPORT_SERVER__INGEST_ROOTS=json.dumps([str(tmp_path)]))
    spent: list[float] = []
    with httpx.Client(base_url=process.url, timeout=60) as client, Client(process.url) as typed:
        until_ready(client)
        job, began = typed.ingest(str(folder), source="table"), time.perf_counter()
        while typed.job(job.job_id).state in {"queued", "running"}:
            for _ in range(10):
                started = time.perf_counter()
                assert client.get("/healthz").status_code == 200
                spent.append(time.perf_counter() - started)
                time.sleep(0.01)
        done, took = typed.job(job.job_id), time.perf_counter() - began
        found = typed.lookup("svc-29999")
        typed.delete("table/ports.md")
    process.tell(signal.SIGTERM)

    assert driver().ended() == 0
    assert done.state == "done", done.problem
    assert done.result is not None
    assert done.result["counts"]["indexed"] == 1
    assert "svc-29999" in found.evidence[0].excerpt
    assert len(spent) > 50
    assert max(spent) < took / 10  # not while a step of the job held everything up
