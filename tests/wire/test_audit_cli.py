"""``knowport audit``: what it prints, its JSON and its exit codes, over the real engine."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase
from support import HashEmbedder, knowport, make_folder, page


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of three documents with 3 chunks each."""
    folder = tmp_path_factory.mktemp("whole")
    pages = {f"{n}.md": page(f"Page {n}", [f"text {n} {part}" for part in range(3)]) for n in "abc"}
    with KnowledgeBase(folder / "home", embedder=HashEmbedder()) as kb:
        kb.ingest(make_folder(folder / "kb", pages))
    return folder / "home"


@pytest.fixture(scope="module")
def spoilt(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a chunk lost, a row of a document that nobody knows, and a changed text."""
    home = Path(shutil.copytree(whole, tmp_path_factory.mktemp("spoilt") / "home"))
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        index = kb._parts.index
        assert index is not None
        index.delete_by_doc_id("kb/a.md", from_index=2)
        spoil = {
            "kb/b.md#chunk-1": {"content": "tampered"},
            "kb/c.md#chunk-0": {"id": "gone.md#chunk-0", "doc_id": "gone.md"},
        }
        for row_id, changes in spoil.items():
            [row] = index._client.get(index.collection, ids=[row_id], output_fields=["*"])
            row = {name: value for name, value in row.items() if name != "sparse_vector"}
            index._client.upsert(index.collection, [{**row, **changes}])
    return home


FOUND = [
    ("ghost", "gone.md", ""),
    ("missing", "kb/a.md", "kb/a.md#chunk-2"),
    ("wrong_hash", "kb/b.md", "kb/b.md#chunk-1"),
]


def audit(home: Path, *options: str) -> tuple[int, str, str]:
    done = knowport("audit", *options, home=home, hash_embedder=True)
    return done.returncode, done.stdout, done.stderr


def codes(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(f["code"], f["doc_id"], f["key"]) for f in report["findings"]]


def test_nothing_wrong(whole: Path) -> None:
    code, out, err = audit(whole)

    assert (code, err) == (0, "")
    assert out == "3 documents, 9 chunks, 9 searched for. No findings.\n"


def test_an_altered_text_in_the_ledger_is_told_and_never_repaired_from(
    whole: Path, tmp_path: Path
) -> None:
    home = Path(shutil.copytree(whole, tmp_path / "home"))
    with closing(sqlite3.connect(home / "ledger.sqlite3")) as ledger, ledger:
        ledger.execute("UPDATE texts SET text = text || ' altered' WHERE doc_id = 'kb/b.md'")

    for options in ((), ("--repair",)):
        code, out, _ = audit(home, "--json", *options)
        report = json.loads(out)
        assert code == 8
        assert codes(report.get("after", report)) == [("altered_text", "kb/b.md", "")]


def test_what_is_wrong_is_named_and_the_exit_code_says_so(spoilt: Path) -> None:
    code, out, err = audit(spoilt, "--sample", "0")

    assert (code, err) == (8, "")
    lines = out.splitlines()
    assert [line.split(": ")[:2] for line in lines[:3]] == [
        ["ghost", "gone.md"],
        ["missing", "kb/a.md#chunk-2"],
        ["wrong_hash", "kb/b.md#chunk-1"],
    ]
    assert lines[3:] == [
        "3 documents, 9 chunks, 0 searched for. 3 findings: 1 ghost, 1 missing, 1 wrong_hash."
    ]


def test_json_is_the_same(spoilt: Path) -> None:
    code, out, err = audit(spoilt, "--json", "--sample", "all")

    report = json.loads(out)
    assert (code, err) == (8, "")
    assert codes(report) == FOUND
    assert all(finding["message"] for finding in report["findings"])
    assert (report["documents"], report["chunks"], report["probed"]) == (3, 9, 9)


def test_repair_says_what_it_found_and_what_is_left(spoilt: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(spoilt, tmp_path / "home"))

    code, out, _ = audit(home, "--repair", "--json")

    repaired = json.loads(out)
    assert code == 0
    assert codes(repaired["before"]) == FOUND
    assert repaired["rewritten"] == ["kb/a.md", "kb/b.md"]
    assert repaired["deleted"] == ["gone.md"]
    assert repaired["refused"] == {}
    assert repaired["after"] == {"documents": 3, "chunks": 9, "probed": 9, "findings": []}
    assert audit(home)[:2] == (0, "3 documents, 9 chunks, 9 searched for. No findings.\n")

    code, out, _ = audit(home, "--repair")
    assert (code, out) == (0, "3 documents, 9 chunks, 9 searched for. No findings.\n")


def test_repair_for_people(spoilt: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(spoilt, tmp_path / "home"))

    code, out, _ = audit(home, "--repair")

    assert code == 0
    assert out.splitlines()[3:] == [
        "3 documents, 9 chunks, 9 searched for. 3 findings: 1 ghost, 1 missing, 1 wrong_hash.",
        "Repaired: 2 documents written again, 1 deleted.",
        "3 documents, 9 chunks, 9 searched for. No findings.",
    ]


@pytest.mark.parametrize("sample", ["-1", "some", "1.5", ""])
def test_a_sample_is_a_number_or_all(whole: Path, sample: str) -> None:
    code, out, err = audit(whole, f"--sample={sample}")

    assert (code, out) == (2, "")
    assert "neither a number nor 'all'" in err


def test_before_any_ingest_there_is_nothing_to_audit(tmp_path: Path) -> None:
    code, out, _ = audit(tmp_path / "home", "--repair")

    assert (code, out) == (0, "0 documents, 0 chunks, 0 searched for. No findings.\n")
