"""``knowport rebuild`` and ``knowport evidence``: what they print, their JSON and exit codes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase, load_settings
from knowport.adapters.milvus import MilvusIndex
from rebuilds import doc_id, text_of
from support import HashEmbedder, knowport, make_folder, mark

SMALL = {"KNOWPORT_CHUNKING__SIZE": "300"}
DOCUMENTS = 3


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of three pages; beside it ``labelled.jsonl``."""
    folder = tmp_path_factory.mktemp("base")
    pages = {f"d{n:02}.md": text_of(n) for n in range(DOCUMENTS)}
    with KnowledgeBase(folder / "home", embedder=HashEmbedder()) as kb:
        kb.ingest(make_folder(folder / "kb", pages))
    rows = [
        {"_id": f"q{n}", "text": mark("first", n, 1, 0), "documents": [f"d{n:02}.md"]}
        for n in range(DOCUMENTS)
    ]
    lines = [json.dumps(row) for row in [*rows, {"_id": "none", "text": "x", "documents": []}]]
    (folder / "labelled.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def home(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base / "home", tmp_path / "home"))


def run(home: Path, *arguments: str | Path, **environment: str) -> tuple[int, str, str]:
    done = knowport(*arguments, home=home, environment=environment, hash_embedder=True)
    return done.returncode, done.stdout, done.stderr


def as_json(home: Path, *arguments: str | Path, code: int = 0, **environment: str) -> Any:
    found, out, err = run(home, *arguments, "--json", **environment)
    assert (found, err) == (code, "")
    return json.loads(out)


def error(home: Path, *arguments: str, code: int = 14, **environment: str) -> dict[str, Any]:
    found, out, err = run(home, *arguments, "--json", **environment)
    assert (found, out) == (code, "")
    told = json.loads(err)["error"]
    assert told["remedy"]
    return told


def states(home: Path) -> list[tuple[str, str]]:
    rows = as_json(home, "rebuild", "status")["generations"]
    return [(row["name"], row["state"]) for row in rows]


def test_a_whole_rebuild_with_labelled_questions_and_back(base: Path, home: Path) -> None:
    code, out, err = run(
        home, "rebuild", "run", "--queries", base / "labelled.jsonl", "--sample", "5"
    )
    assert code == 0
    assert err == "The index is as the settings ask for it; this builds the same again.\n"
    built, verified, judged, switched = out.splitlines()
    new = built.split()[1].rstrip(":")
    assert built.startswith(f"Generation {new}: 3 documents, 12 chunks written in ")
    assert built.endswith("vectors: 12 from the cache, 0 made.")
    assert verified == ("Verified: 3 documents, 12 chunks compared, 5 searched for, 0 findings.")
    assert judged.startswith("nDCG@10 over 3 labelled queries: 1.000 before, 1.000 now (p = 1); ")
    assert judged.endswith("1 left out, which no document here answers.")
    assert switched.startswith(f"Switched from g1 to {new}; 0 documents caught up, writers waited ")

    code, out, _ = run(home, "rebuild", "status")
    assert code == 0
    rows = [line.split()[:4] for line in out.splitlines()[1:3]]
    assert rows == [["g1", "previous", "3/3", "12"], [new, "active", "3/3", "12"]]
    assert f"\n{new}: verified against g1, 20" in out
    assert "`knowport rebuild drop g1` frees the room of g1." in " ".join(out.split())
    code, out, _ = run(home, "rebuild", "rollback")
    assert (code, out.split(";")[0]) == (0, f"Switched from {new} to g1")
    assert run(home, "rebuild", "drop", new)[1].startswith("Dropped collection biz_g2_")
    assert states(home) == [("g1", "active")]


# -- from the files ------------------------------------------------------------------------------


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Two folders, of which one needs its options again: a category, and a file left out."""
    make_folder(tmp_path / "ops", {"disk.md": "# Disk\n\nalpha full", "draft.md": "# D\n\ndraft"})
    make_folder(tmp_path / "net", {"dns.md": "# DNS\n\nbeta cache"})
    home = tmp_path / "new home"
    for arguments in (
        ("ingest", tmp_path / "ops", "--category", "linux", "--exclude", "draft.md"),
        ("ingest", tmp_path / "net", "--scope", "other"),
        ("ingest", tmp_path / "net" / "dns.md", "--source", "single"),
    ):
        assert run(home, *arguments)[0] == 0
    return tmp_path


def test_folders_are_read_again_before_a_rebuild_as_they_were_ingested(pages: Path) -> None:
    home = pages / "new home"
    make_folder(pages / "ops", {"disk.md": "# Disk\n\ngamma full", "new.md": "# New\n\ndelta"})
    shutil.rmtree(pages / "net")

    done = as_json(home, "rebuild", "run", "--reread", **SMALL)

    found = {one["source"]: one["report"] and one["report"]["counts"] for one in done["reread"]}
    assert found.pop("ops")["indexed"] == 2
    assert found == {"net": None, "single": None}
    assert done["build"]["documents"] == 4
    assert done["switch"]["generation"] == done["build"]["generation"]
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        documents = [*kb.documents(), *kb.documents(kb_scope="other")]
        assert {(d.doc_id, d.category, d.kb_scope) for d in documents} == {
            ("ops/disk.md", "linux", "default"),
            ("ops/new.md", "linux", "default"),
            ("single/dns.md", "", "default"),
            ("net/dns.md", "", "other"),
        }
        assert kb.lookup("gamma").evidence[0].document_id == "ops/disk.md#chunk-0"
    code, out, _ = run(home, "rebuild", "run", "--reread")
    assert code == 0
    assert "Not read again, and rebuilt from its stored texts: net," in out
    assert f"Read again: ops, {pages / 'ops'}: 0 indexed, 2 unchanged" in out


def test_where_the_index_takes_no_writes_they_are_read_after_the_switch(pages: Path) -> None:
    home = pages / "new home"
    make_folder(pages / "ops", {"disk.md": "# Disk\n\ngamma full", "bad.pdf": "%PDF-1.4 broken"})
    settings = load_settings({"home": home})
    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        ledger = kb._parts.ledger
        active = ledger.active_generation()
        assert active is not None
        ledger.save_generation(replace(active, schema_version=0))

    code, out, _ = run(home, "rebuild", "run", "--reread")

    assert code == 8  # the PDF, and the rest is done
    assert "bad.pdf: " in out
    assert f"Read again: ops, {pages / 'ops'}: 1 indexed, 0 unchanged, 0 skipped, 1 failed" in out
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert kb.lookup("gamma").evidence[0].document_id == "ops/disk.md#chunk-0"
        assert kb.audit().findings == ()


def test_a_service_cannot_read_the_folders_of_this_machine(home: Path) -> None:
    told = error(home, "rebuild", "run", "--reread", "--server", "http://localhost:1", code=2)
    assert "knowport ingest PATH --server URL" in told["remedy"]


def test_step_by_step_as_json(home: Path) -> None:
    assert error(home, "rebuild", "verify")["code"] == "rebuild"
    built = as_json(home, "rebuild", "start", **SMALL)
    assert built["stopped"] is False
    assert built["hits"] + built["misses"] == built["chunks"] > 12
    assert built["generation"] in error(home, "rebuild", "start", **SMALL)["message"]
    refused = error(home, "rebuild", "activate")
    assert "is not verified" in refused["message"]
    assert "other settings" in error(home, "rebuild", "run")["message"]
    verified = as_json(home, "rebuild", "verify", "--sample", "5")
    assert (verified["passed"], verified["failures"]) == (True, [])
    assert verified["report"]["chunks"] == built["chunks"]
    assert verified["report"]["evidence_keys"] == {"split": 12}
    _, out, _ = run(home, "rebuild", "verify", "--sample", "5")
    assert "Evidence keys: 12 are split; `knowport evidence KEY` follows them." in out
    assert states(home) == [("g1", "active"), (built["generation"], "verified")]
    switched = as_json(home, "rebuild", "activate")
    assert (switched["previous"], switched["forced"]) == ("g1", False)
    assert error(home, "rebuild", "abort")["code"] == "rebuild"
    status = as_json(home, "rebuild", "status")
    assert status["differs"] == ["chunking.size was 300, is 600"]
    assert (
        status["next_step"] == "`knowport rebuild run` builds the index with the settings of now."
    )
    assert status["unknown_collections"] == []
    assert [row["documents_present"] for row in status["generations"]] == [3, 3]
    assert [row["chunks"] for row in status["generations"]] == [12, built["chunks"]]
    assert "is cut otherwise than the settings say" in run(home, "status")[2]
    again = as_json(home, "rebuild", "start")["generation"]
    assert states(home)[2] == (again, "built")
    assert as_json(home, "rebuild", "abort") == {"dropped": again}
    assert len(states(home)) == 2


def test_what_does_not_pass_is_not_switched_to_unless_forced(home: Path) -> None:
    name = as_json(home, "rebuild", "start")["generation"]
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        rows = kb.rebuild.status().generations
        new: MilvusIndex = kb._parts.generations.index_of(rows[1].generation)
        new.delete_by_doc_id("kb/d01.md", from_index=2)
    code, out, err = run(home, "rebuild", "verify", "--sample", "5")
    assert (code, err) == (14, "")
    assert out.splitlines()[0].startswith("NOT verified: 3 documents, 12 chunks compared")
    assert "Against it: 2 times missing, first kb/d01.md#chunk-2: It is not stored." in out
    code, out, err = run(home, "rebuild", "activate")
    assert (code, out) == (14, "")
    assert "2 times missing" in err
    assert "--force" in err
    switched = as_json(home, "rebuild", "activate", "--force")
    assert (switched["generation"], switched["forced"], switched["caught_up"]) == (name, True, 1)
    assert f"{name}: activated by force.\n" in run(home, "rebuild", "status")[1]
    assert run(home, "audit")[0] == 0, "catching up has mended it"


def test_an_empty_home_and_bad_arguments(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert as_json(home, "rebuild", "status")["generations"] == []
    assert not (home / "milvus.db").exists(), "a look makes no index"
    assert "ingest" in error(home, "rebuild", "run")["remedy"]
    assert "roll back" in error(home, "rebuild", "rollback")["message"]
    assert as_json(home, "rebuild", "status") == {
        "generations": [],
        "differs": [],
        "unknown_collections": [],
        "next_step": "There is no index yet: `knowport ingest PATH` makes one.",
        "at_work": None,
    }
    assert error(home, "rebuild", "run", "--queries", "nowhere.jsonl", code=2)
    assert run(home, "rebuild", "run", "--sample", "0")[0] == 2


def test_a_lost_index_is_built_again(home: Path) -> None:
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert kb._parts.index is not None
        kb._parts.index.drop()
    told = error(home, "lookup", mark("first", 1, 0, 0), code=4)
    assert "knowport rebuild run" in told["remedy"]
    assert "is gone" in as_json(home, "rebuild", "status")["next_step"]
    assert "its collection is gone" in run(home, "rebuild", "status")[1]
    assert as_json(home, "rebuild", "run")["build"]["misses"] == 0
    found = as_json(home, "lookup", mark("first", 1, 0, 0))
    assert found["evidence"][0]["document_id"] == "kb/d01.md#chunk-0"


def test_a_rebuild_that_waits_with_other_settings_says_what_can_be_done(home: Path) -> None:
    started = knowport("rebuild", "start", home=home, hash_embedder=True, environment=SMALL)
    assert started.returncode == 0, started.stderr

    said = as_json(home, "rebuild", "status")["next_step"]

    assert "with other settings (chunking.size was 300, is 600)" in said
    assert "`knowport rebuild abort`" in said
    refused = knowport("rebuild", "run", home=home, hash_embedder=True)
    assert refused.returncode == 14


@pytest.mark.parametrize("at", ["banana", "", "2026-99-99", "0"])
def test_a_time_that_is_none_is_refused(home: Path, at: str) -> None:
    done = knowport("evidence", "kb/d00.md#chunk-0", "--at", at, home=home, hash_embedder=True)

    assert done.returncode == 2
    assert "is no time" in done.stderr


def test_a_key_of_several_texts_does_not_take_sides(base: Path, home: Path) -> None:
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        kb.put(doc_id(0), text_of(0).replace("first", "second"))

    done = knowport("evidence", f"{doc_id(0)}#chunk-0", home=home, hash_embedder=True)

    assert done.returncode == 0
    assert done.stdout.startswith("ambiguous: it has stood for several texts; --generation or --at")
    now = knowport(
        "evidence", f"{doc_id(0)}#chunk-0", "--at", "2999-01-01", home=home, hash_embedder=True
    )
    assert now.stdout == "current: still stands for the same text\n"


def test_a_generation_that_never_was(home: Path) -> None:
    told = error(home, "evidence", f"{doc_id(0)}#chunk-0", "--generation", "g77", code=2)
    assert "'g77'" in told["message"]
    assert told["remedy"] == "This document stood in g1."


def test_where_old_evidence_is_now(home: Path) -> None:
    key = "kb/d01.md#chunk-1"
    assert run(home, "evidence", key)[:2] == (0, "current: still stands for the same text\n")
    new = as_json(home, "rebuild", "run", **SMALL)["build"]["generation"]
    code, out, _ = run(home, "evidence", key)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("ambiguous: it has stood for several texts; --generation or --at")
    assert [line.split(" in ")[1].split(":")[0] for line in lines[1:]] == ["g1", new]
    assert "split, kb/d01.md#chunk-" in lines[1]
    assert lines[2].endswith(": current")
    found = as_json(home, "evidence", key, "--generation", new, **SMALL)
    assert (found["state"], found["to"]) == ("current", [key])
    assert run(home, "evidence", "kb/never.md#chunk-0")[0] == 1
    assert error(home, "evidence", "kb/d01.md", code=2, **SMALL)["code"] == "invalid_input"
    run(home, "documents", "delete", doc_id(1))
    assert run(home, "evidence", key)[:2] == (1, "deleted: its document was deleted\n")
