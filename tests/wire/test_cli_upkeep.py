"""``rebuild``, ``audit`` and ``evidence`` with ``--server``: what they do without it, through the
service that has the index."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from http_service import GateEmbedder, Running, running
from knowport import KnowledgeBase
from knowport.client import Client, ServiceError
from knowport.client.values import Job
from knowport.entrypoints import audit_output, rebuild_output
from knowport.entrypoints.remote_jobs import finished
from knowport.entrypoints.running import announced
from knowport.pipelines import rebuild, rebuild_fill
from knowport.pipelines.audit import AuditProgress
from knowport.pipelines.rebuild_ports import RebuildProgress, VerifyReport
from rebuilds import doc_id, text_of
from support import (
    HashEmbedder,
    clean_environment,
    driver,
    knowport,
    knowport_from_scratch,
    make_folder,
    mark,
)

SMALL = {"chunking": {"size": 300}}
SMALL_HERE = {"KNOWPORT_CHUNKING__SIZE": "300"}
DOCUMENTS = 3
KEY = f"{doc_id(1)}#chunk-1"


@dataclass
class Asking:
    """Commands that are told a running service, and are given no home of an index."""

    service: Running
    nowhere: Path

    def run(self, *arguments: str | Path, **environment: str) -> tuple[int, str, str]:
        done = knowport(
            *arguments,
            f"--server={self.service.url}",
            home=self.nowhere,
            environment=environment,
        )
        assert not self.nowhere.exists(), "it must not open a knowledge base of its own"
        return done.returncode, done.stdout, done.stderr

    def as_json(self, *arguments: str | Path, code: int = 0, **environment: str) -> Any:
        found, out, err = self.run(*arguments, "--json", **environment)
        assert (found, err) == (code, "")
        return json.loads(out)

    def error(self, *arguments: str | Path, code: int = 14, **environment: str) -> dict[str, Any]:
        found, out, err = self.run(*arguments, "--json", **environment)
        assert (found, out) == (code, "")
        return dict(json.loads(err)["error"])

    def states(self) -> list[tuple[str, str]]:
        rows = self.as_json("rebuild", "status")["generations"]
        return [(row["name"], row["state"]) for row in rows]


def here(home: Path, *arguments: str) -> Any:
    """The same command without a service."""
    done = knowport(*arguments, "--json", home=home, environment=SMALL_HERE, hash_embedder=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of three pages of four chunks."""
    folder = tmp_path_factory.mktemp("base")
    pages = {f"d{n:02}.md": text_of(n) for n in range(DOCUMENTS)}
    with KnowledgeBase(folder / "home", embedder=HashEmbedder()) as kb:
        kb.ingest(make_folder(folder / "kb", pages))
    return folder / "home"


@pytest.fixture
def home(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "home"))


@pytest.fixture
def gate() -> Iterator[GateEmbedder]:
    embedder = GateEmbedder()
    yield embedder
    embedder.gate.set()


@pytest.fixture
def asking(home: Path, gate: GateEmbedder) -> Iterator[Asking]:
    """A service whose settings ask for smaller chunks than its index has."""
    with (
        running(home, documents={}, settings=SMALL, embedder=gate) as one,
        announced(home, one.url),
    ):
        try:
            yield Asking(one, home.parent / "nowhere")
        finally:
            gate.gate.set()


def wait_for(what: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# -- rebuild --------------------------------------------------------------------------------------


def test_a_whole_rebuild_with_labelled_questions_and_back(asking: Asking, tmp_path: Path) -> None:
    rows = [
        {"_id": f"q{n}", "text": mark("first", n, 1, 0), "documents": [f"d{n:02}.md"]}
        for n in range(DOCUMENTS)
    ]
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    lookups = asking.service.kb

    code, out, err = asking.run("rebuild", "run", "--queries", labelled, "--sample", "5")

    assert (code, err) == (0, "")
    built, verified, judged, keys, switched = out.splitlines()
    new = built.split()[1].rstrip(":")
    chunks = lookups.status().chunks
    assert chunks > 12
    assert built.startswith(f"Generation {new}: 3 documents, {chunks} chunks written in ")
    assert verified == (
        f"Verified: 3 documents, {chunks} chunks compared, 5 searched for, 0 findings."
    )
    assert judged.startswith("nDCG@10 over 3 labelled queries: 1.000 before, 1.000 now (p = 1)")
    assert keys == "Evidence keys: 12 are split; `knowport evidence KEY` follows them."
    assert switched.startswith(f"Switched from g1 to {new}; 0 documents caught up, writers waited ")
    assert lookups.lookup(mark("first", 1, 0, 0)).generation == new

    code, out, err = asking.run("rebuild", "status")
    assert (code, err) == (0, "")
    rows_shown = [line.split()[:5] for line in out.splitlines()[1:3]]
    assert rows_shown == [
        ["g1", "previous", "3/3", "12", "600"],
        [new, "active", "3/3", str(chunks), "300"],
    ]
    code, out, err = asking.run("rebuild", "rollback")
    assert (code, err) == (0, "")
    assert out.startswith(f"Switched from {new} to g1; 0 documents caught up, writers waited ")
    assert lookups.lookup(mark("first", 1, 0, 0)).generation == "g1"
    assert asking.run("rebuild", "drop", new)[1].startswith("Dropped collection biz_g2_")
    assert asking.states() == [("g1", "active")]


def test_the_json_is_that_of_the_commands_without_a_service(home: Path, gate: GateEmbedder) -> None:
    with running(home, documents={}, settings=SMALL, embedder=gate) as one:
        asking = Asking(one, home.parent / "nowhere")
        whole = asking.as_json("rebuild", "run", "--sample", "5")
        told = {
            command: asking.as_json(*command.split())
            for command in ("rebuild status", "audit --sample 4", f"evidence {KEY}")
        }
    assert list(whole) == ["build", "verify", "switch"]
    assert whole["build"]["stopped"] is False
    assert whole["verify"]["report"]["searched_for"] == 5
    assert whole["switch"]["previous"] == "g1"
    assert told["audit --sample 4"]["findings"] == []
    assert told[f"evidence {KEY}"]["state"] == "split"
    for command, said in told.items():
        assert here(home, *command.split()) == said


def test_step_by_step(asking: Asking) -> None:
    assert asking.error("rebuild", "verify")["message"] == "No rebuild is under way."
    assert asking.error("rebuild", "abort")["code"] == "rebuild"
    assert "roll back" in asking.error("rebuild", "rollback")["message"]
    assert asking.error("rebuild", "drop", "g1")["code"] == "rebuild"
    built = asking.as_json("rebuild", "start")
    name = built["generation"]
    assert (built["documents"], built["stopped"]) == (3, False)
    assert "is not verified" in asking.error("rebuild", "activate")["message"]
    rows = asking.service.kb.rebuild.status().generations
    index = asking.service.kb._parts.generations.index_of(rows[1].generation)
    index.delete_by_doc_id(doc_id(1), from_index=2)

    code, out, err = asking.run("rebuild", "verify", "--sample", "5")

    assert (code, err) == (14, "")
    assert out.splitlines()[0].startswith(f"NOT verified: 3 documents, {built['chunks']} chunks")
    assert f"missing, first {doc_id(1)}#chunk-2: It is not stored." in out
    code, out, err = asking.run("rebuild", "activate")
    assert (code, out) == (14, "")
    assert f"Generation {name} is not verified" in err
    assert "--force" in err
    switched = asking.as_json("rebuild", "activate", "--force")
    assert (switched["generation"], switched["forced"], switched["caught_up"]) == (name, True, 1)
    assert "activated by force" in asking.run("rebuild", "status")[1]
    assert asking.as_json("rebuild", "rollback", "g1")["generation"] == "g1"
    again = asking.as_json("rebuild", "start")["generation"]
    assert asking.run("rebuild", "abort") == (0, f"Dropped {again}.\n", "")
    assert asking.states() == [("g1", "active"), (name, "previous")]


def test_a_rebuild_that_does_not_pass_ends_with_its_own_exit_code(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = {"documents": 3, "chunks": 24, "searched_for": 5, "findings": 2}
    sentence = "2 times missing, first a#chunk-0: It is not stored."
    monkeypatch.setattr(rebuild, "verify", lambda *_: VerifyReport("g2", (sentence,), figures))

    code, out, err = asking.run("rebuild", "run")

    assert code == 14
    assert "NOT verified: 3 documents, 24 chunks compared, 5 searched for, 2 findings." in out
    assert "did not pass, so nothing was switched: 2 times missing, first a#chunk-0" in err
    assert "`knowport rebuild activate --force` insists" in err
    assert [state for _, state in asking.states()] == ["active", "built"]


def test_labelled_questions_and_samples_are_looked_at_before_anything_is_asked(
    asking: Asking,
) -> None:
    assert asking.error("rebuild", "run", "--queries", "nowhere.jsonl", code=2)
    assert asking.run("rebuild", "verify", "--sample", "0")[0] == 2
    assert asking.service.client.get("/v1/jobs").json() == {"jobs": []}


# -- stopping -------------------------------------------------------------------------------------


@dataclass
class Begun:
    """A command that runs."""

    pid: int
    out: Path
    err: Path

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)


def begun(asking: Asking, *arguments: str) -> Begun:
    folder = asking.nowhere.parent
    out, err = folder / "out", folder / "err"
    pid = driver().start(
        do="cli",
        arguments=[*arguments, f"--server={asking.service.url}"],
        environment=clean_environment(),
        folder=folder,
        stdout=out,
        stderr=err,
    )
    return Begun(pid, out, err)


def test_ctrl_c_cancels_the_job_and_the_same_command_goes_on(
    asking: Asking, gate: GateEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild_fill, "GROUP_DOCUMENTS", 1)
    gate.gate.clear()
    command = begun(asking, "rebuild", "run")
    assert gate.held.wait(120)
    job = asking.service.client.get("/v1/jobs").json()["jobs"][0]["job_id"]
    second = knowport_from_scratch(
        "rebuild", "run", "--json", f"--server={asking.service.url}", home=asking.nowhere
    )
    command.interrupt()
    wait_for(lambda: "Cancelling the job" in command.err.read_text())
    wait_for(asking.service.service.jobs._jobs[job].stop.is_set)
    gate.gate.set()

    assert driver().ended() == 130
    assert "Stopped before it was whole; `knowport rebuild run` goes on." in command.out.read_text()
    assert "Traceback" not in command.err.read_text()
    told = json.loads(second.stderr)["error"]
    assert (second.returncode, told["code"], told["transient"]) == (14, "rebuild", True)
    assert f"GET /v1/jobs/{job}" in told["remedy"]
    assert [state for _, state in asking.states()] == ["active", "building"]
    assert asking.as_json("rebuild", "run")["switch"]["previous"] == "g1"


def test_the_status_tells_of_a_job_and_abort_stops_it(
    asking: Asking, gate: GateEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild_fill, "GROUP_DOCUMENTS", 1)
    gate.gate.clear()
    job = asking.service.client.post("/v1/generations").json()["job_id"]
    assert gate.held.wait(120)
    _, name = asking.states()[1]
    found = asking.as_json("rebuild", "status")
    refused = asking.service.client.post("/v1/generations/abort")
    _, shown, _ = asking.run("rebuild", "status")
    threading.Timer(0.5, gate.gate.set).start()
    code, out, err = asking.run("rebuild", "abort")

    assert name == "building"
    assert (found["at_work"]["job_id"], found["at_work"]["state"]) == (job, "running")
    assert f"At work: rebuild ({job}, running" in shown
    assert "goes on with" not in shown
    assert (refused.status_code, job in refused.json()["remedy"]) == (409, True)
    assert (code, err) == (0, f"Cancelling job {job} (rebuild).\n")
    assert out.startswith("Dropped g2-")
    assert asking.states() == [("g1", "active")]
    assert asking.as_json("rebuild", "status")["at_work"] is None


def test_a_second_ctrl_c_does_not_wait(asking: Asking, gate: GateEmbedder) -> None:
    gate.gate.clear()
    command = begun(asking, "rebuild", "start")
    assert gate.held.wait(120)
    command.interrupt()
    wait_for(lambda: "Cancelling the job" in command.err.read_text())
    command.interrupt()

    assert driver().ended() == 130
    assert not gate.gate.is_set()
    assert command.out.read_text() == ""
    assert "Interrupted. The job is cancelled" in command.err.read_text()
    [job] = asking.service.service.jobs._jobs.values()
    assert job.stop.is_set()


def test_a_job_that_somebody_else_cancelled_is_told_of(asking: Asking, gate: GateEmbedder) -> None:
    gate.gate.clear()
    first = asking.service.client.post("/v1/generations")
    assert gate.held.wait(120)
    command = begun(asking, "audit")
    jobs = asking.service.service.jobs
    wait_for(lambda: len(jobs._jobs) == 2)
    waiting = list(jobs._jobs)[1]
    asking.service.client.post(f"/v1/jobs/{waiting}/cancel")

    assert driver().ended() == 130
    assert command.err.read_text() == f"Job {waiting} was cancelled.\n"
    assert command.out.read_text() == ""
    assert first.status_code == 202


def test_a_service_that_goes_away_meanwhile_says_that_the_work_is_kept(
    asking: Asking, gate: GateEmbedder
) -> None:
    gate.gate.clear()
    with Client(asking.service.url, retries=0) as client:

        def begin() -> Job:
            job = client.rebuild.run()
            client.close()  # as if the connection broke
            return job

        with Client("http://127.0.0.1:1", retries=0) as dead, pytest.raises(ServiceError) as error:
            finished(dead, begin, lambda _: None)
    assert error.value.remedy.endswith("What was done is kept: then run the same again.")


def test_how_far_a_job_is_comes_as_the_progress_of_the_command(asking: Asking) -> None:
    told: list[AuditProgress] = []
    with Client(asking.service.url) as client:
        finished(client, client.audit, lambda now: told.append(audit_output.as_progress(now)))
    assert (told[-1].step, told[-1].total) == ("probe", 12)
    values = {"step": "build", "done": 1, "total": 2, "hits": 3, "misses": 4, "of_later": 5}
    assert rebuild_output.as_progress(values) == RebuildProgress("build", 1, 2, 3, 4)


# -- audit ----------------------------------------------------------------------------------------


def test_an_audit_with_a_finding_and_its_repair(asking: Asking) -> None:
    assert asking.run("audit") == (
        0,
        "3 documents, 12 chunks, 12 searched for. No findings.\n",
        "",
    )
    assert asking.service.kb._parts.index is not None
    asking.service.kb._parts.index.delete_by_doc_id(doc_id(1), from_index=3)
    lost = f"missing: {doc_id(1)}#chunk-3: It is not stored."
    summary = "3 documents, 11 chunks, 0 searched for. 1 finding: 1 missing."
    whole = "3 documents, 12 chunks, 0 searched for. No findings."

    assert asking.run("audit", "--sample", "0") == (8, f"{lost}\n{summary}\n", "")
    report = asking.as_json("audit", "--sample", "0", code=8)
    assert [finding["code"] for finding in report["findings"]] == ["missing"]
    assert asking.run("audit", "--repair", "--sample", "0") == (
        0,
        f"{lost}\n{summary}\nRepaired: 1 document written again, 0 deleted.\n{whole}\n",
        "",
    )
    nothing = asking.as_json("audit", "--repair", "--sample", "all")
    assert nothing["before"] == nothing["after"]
    assert nothing["after"] == {"documents": 3, "chunks": 12, "probed": 12, "findings": []}


def test_an_audit_of_an_engine_that_fails_ends_as_it_would_without_a_service(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knowport.errors import EngineUnavailable

    def fail(**_: Any) -> None:
        raise EngineUnavailable("Milvus is away.", remedy="Start it.")

    monkeypatch.setattr(asking.service.kb, "audit", fail)
    told = asking.error("audit", code=6)
    assert (told["code"], told["message"], told["transient"]) == (
        "engine_unavailable",
        "Milvus is away.",
        True,
    )


# -- evidence -------------------------------------------------------------------------------------


def test_evidence_that_is_the_same_changed_moved_and_deleted(asking: Asking) -> None:
    kb = asking.service.kb
    assert asking.run("evidence", KEY) == (0, "current: still stands for the same text\n", "")
    assert asking.run("evidence", "kb/never.md#chunk-0")[:2] == (
        1,
        "unknown: what it stood for is not known\n",
    )
    assert asking.error("evidence", doc_id(1), code=2)["code"] == "invalid_input"
    new = asking.as_json("rebuild", "run")["switch"]["generation"]
    code, out, _ = asking.run("evidence", KEY)
    assert code == 0
    assert out.startswith("ambiguous: ")
    assert f"split, {doc_id(1)}#chunk-" in out
    found = asking.as_json("evidence", KEY, "--generation", new)
    assert (found["state"], found["to"]) == ("current", [KEY])
    assert asking.as_json("evidence", KEY, "--at", "2001-01-01", code=1)["state"] == "unknown"
    kb.put(doc_id(1), text_of(1, "second"))
    code, out, _ = asking.run("evidence", KEY, "--generation", "g1")
    assert (code, out) == (1, "changed: no chunk of the document holds the text as it was\n")
    kb.delete(doc_id(1))
    code, out, _ = asking.run("evidence", KEY, "--generation", "g1")
    assert (code, out) == (1, "deleted: its document was deleted\n")


def test_the_key_decides_what_may_be_asked(asking: Asking) -> None:
    kb = asking.service.kb
    kb.put("there/a.md", "# A\n\nZebra.\n", kb_scope="other")
    key = "there/a.md#chunk-0"
    assert asking.run("evidence", key)[0] == 1, "no key: the configured scope"
    assert asking.run("evidence", key, "--scope=other")[0] == 0
    reader, other = asking.service.key(), asking.service.key("other")

    refused = asking.error("audit", code=3, KNOWPORT_API_KEY=reader)
    assert refused["code"] == "forbidden"
    assert asking.error("rebuild", "status", code=3, KNOWPORT_API_KEY=reader) == refused
    assert asking.as_json("evidence", key, code=1, KNOWPORT_API_KEY=reader)["state"] == "unknown"
    assert asking.as_json("evidence", key, KNOWPORT_API_KEY=other)["state"] == "current"
    elsewhere = asking.error("evidence", key, "--scope=other", code=9, KNOWPORT_API_KEY=reader)
    assert elsewhere["code"] == "unknown_scope"


# -- in use ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["rebuild status", "audit", f"evidence {KEY}"])
def test_without_the_option_the_service_is_named(asking: Asking, home: Path, command: str) -> None:
    done = knowport(*command.split(), home=home, hash_embedder=True)

    assert (done.returncode, done.stdout) == (5, "")
    assert f"ask that with --server {asking.service.url}, or stop it first" in done.stderr


def test_another_process_than_a_service_is_to_be_stopped(base: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(base, tmp_path / "home"))
    with KnowledgeBase(home, embedder=HashEmbedder()):
        done = knowport("audit", home=home, hash_embedder=True)

    assert done.returncode == 5
    assert f"is in use by process {os.getpid()}." in done.stderr
    assert "Stop it, or ask it with --server URL if it is `knowport serve`." in done.stderr
