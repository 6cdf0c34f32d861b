"""``knowport ingest`` as a sync, on the command line: options, reports, exit codes, watching."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowport import KnowledgeBase, Settings
from support import (
    Driver,
    HashEmbedder,
    clean_environment,
    driver,
    knowport,
    make_folder,
    page,
    stored_chunks,
)

FILES = {
    "a.md": "# A\n\nalpha\n",
    "net/b.md": page("B", ["beta", "gamma"]),
    "notes.txt": "notes\n",
    "net/c.csv": "name,port\ndns,53\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "kb", FILES)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def ingest(folder: Path, home: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    return knowport("ingest", folder, *more, home=home, hash_embedder=True)


def report(folder: Path, home: Path, *more: str | Path) -> dict[str, Any]:
    done = ingest(folder, home, "--json", *more)
    value: dict[str, Any] = json.loads(done.stdout)
    return {**value, "exit": done.returncode}


def outcomes(values: dict[str, Any], folder: Path) -> dict[str, str]:
    return {str(Path(f["path"]).relative_to(folder)): f["outcome"] for f in values["files"]}


def documents(home: Path) -> list[str]:
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        return [info.doc_id for info in kb.documents()]


def test_a_sync_from_the_first_to_the_last(folder: Path, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = ingest(folder, home, "--report", file)
    assert done.returncode == 0
    assert done.stdout.startswith("4 indexed, 0 unchanged, 0 skipped, 0 failed, 0 deleted. ")
    written = json.loads(file.read_text())
    assert written["counts"]["indexed"] == len(written["files"]) == 4
    assert (written["path"], written["dry_run"]) == (str(folder), False)
    assert {f["reason"] for f in written["files"]} == {"new"}

    make_folder(folder, {"net/b.md": page("B", ["beta", "delta"]), "new.md": "# N\n\nnew\n"})
    (folder / "a.md").unlink()
    expected = {
        "net/b.md": "indexed",
        "net/c.csv": "unchanged",
        "new.md": "indexed",
        "notes.txt": "unchanged",
    }
    dry = ingest(folder, home, "--dry-run", "--delete-missing")
    assert dry.returncode == 0
    lines = [line.split() for line in dry.stdout.splitlines()]
    assert ["deleted", str(folder / "a.md"), "missing"] in lines
    assert ["indexed", str(folder / "net/b.md"), "changed"] in lines
    assert ["indexed", str(folder / "new.md"), "new"] in lines
    counts = "2 indexed, 2 unchanged, 0 skipped, 0 failed, 1 deleted"
    assert dry.stdout.endswith(f"It would be: {counts}. Nothing was written.\n")
    values = report(folder, home)
    assert outcomes(values, folder) == expected
    assert (values["vanished"], values["exit"], values["chunks_embedded"]) == (["kb/a.md"], 0, 2)
    said = ingest(folder, home).stdout
    assert "Without a file in the folder, and still in the index: 1 document: kb/a.md." in said
    values = report(folder, home, "--delete-missing")
    assert outcomes(values, folder)["a.md"] == "deleted"
    assert values["exit"] == 0
    assert documents(home) == ["kb/net/b.md", "kb/net/c.csv", "kb/new.md", "kb/notes.txt"]


def test_a_dry_run_makes_no_index(folder: Path, home: Path) -> None:
    values = report(folder, home, "--dry-run")
    assert set(outcomes(values, folder).values()) == {"indexed"}
    assert values["dry_run"] is True
    assert [p.name for p in home.glob("*.db") if p.name != "ledger.db"] == []
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert (kb.status().generation, kb.status().documents) == ("", 0)


def test_an_empty_folder_deletes_nothing_unless_forced(folder: Path, home: Path) -> None:
    ingest(folder, home)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    done = ingest(folder, home, "--delete-missing")
    assert done.returncode == 8
    assert "not_deleted: The folder holds no file that could be read." in done.stdout
    assert len(documents(home)) == 4
    done = ingest(folder, home, "--delete-missing", "--force-delete")
    assert done.returncode == 0
    assert documents(home) == []


def test_two_folders_of_one_name_do_not_share_ids_by_mistake(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    ingest(folder, home)
    other = make_folder(tmp_path / "other" / "kb", {"a.md": "# Other\n\nother\n"})
    done = ingest(other, home)
    assert done.returncode == 2
    assert f"The source 'kb' was ingested from '{folder}'" in done.stderr
    assert len(documents(home)) == 4
    assert ingest(other, home, "--source", "other").returncode == 0
    # Named, the source may be shared; but nothing of the other folder is deleted by that.
    done = ingest(other, home, "--source", "kb", "--delete-missing")
    assert done.returncode == 8
    assert "was ingested from" in done.stdout
    assert len(documents(home)) == 5
    # A folder that was moved is no other folder.
    moved = other.rename(tmp_path / "elsewhere")
    moved = moved.rename(other.parent / "kb")
    folder.rename(tmp_path / "gone")
    assert ingest(moved, home).returncode == 0


def test_patterns_and_the_home_inside_of_the_folder(folder: Path) -> None:
    home = folder / "knowport-data"
    make_folder(folder, {".knowportignore": "*.txt\n", "net/d.md": "# D\n\nd\n"})
    values = report(folder, home, "--exclude", "net/d*", "--include", "*.md", "--include", "*.txt")
    assert outcomes(values, folder) == {"a.md": "indexed", "net/b.md": "indexed"}
    again = outcomes(report(folder, home), folder)
    assert set(again) == {"a.md", "net/b.md", "net/c.csv", "net/d.md"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--exclude", "!"], "exclude: "),
        (["--watch", "--dry-run"], "exclude each other"),
        (["--force-delete"], "delete_missing"),
        (["--report", "/nonexistent/r.json"], "The report '/nonexistent/r.json' cannot be written"),
        (["--source", ""], "Document id '/x'"),
    ],
)
def test_options_that_cannot_be_used(
    folder: Path, home: Path, arguments: list[str], said: str
) -> None:
    done = ingest(folder, home, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert list(home.glob("*g1*")) == []


def test_a_long_list_is_cut_for_people_and_whole_in_the_report(home: Path, tmp_path: Path) -> None:
    folder = make_folder(
        tmp_path / "kb", {"a.md": "# A\n\na\n", **{f"e{n:03}.md": "" for n in range(60)}}
    )
    (folder / os.fsdecode(b"bad\xff.md")).write_text("# Bad\n\nbad\n")
    file = tmp_path / "report.json"
    done = ingest(folder, home, "--report", file)
    assert done.returncode == 8
    lines = done.stdout.splitlines()
    assert sum(line.startswith("skipped") for line in lines) == 51
    assert any("and 10 more" in line for line in lines)
    assert lines[-1].startswith("1 indexed, 0 unchanged, 60 skipped, 1 failed, 0 deleted. ")
    values = json.loads(file.read_text())
    assert len(values["files"]) == 62
    assert [f["path"] for f in values["files"] if f["outcome"] == "failed"] == [
        f"{folder}/bad\udcff.md"
    ]


def test_nothing_to_index_is_told(home: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "kb", {"x.png": b"\x89PNG\r\n\x1a\n", ".hidden.md": "x"})
    done = ingest(folder, home)
    assert done.returncode == 2
    assert f"No document was found in {str(folder)!r}" in done.stderr
    assert "unsupported_format" in done.stdout


def test_other_category_options_are_told(folder: Path, home: Path) -> None:
    ingest(folder, home, "--category-from-folder")
    done = ingest(folder, home)
    assert done.returncode == 0
    assert "Of another category than before: 2 documents." in done.stdout


# -- watching -------------------------------------------------------------------------------------


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_watch_follows_changes_until_ctrl_c(folder: Path, tmp_path: Path) -> None:
    home = folder / "knowport-data"  # what is written there is no change
    log = tmp_path / "log"
    errors = tmp_path / "errors"
    group = driver().start(
        do="cli",
        arguments=[
            "ingest",
            str(folder),
            "--watch",
            "--delete-missing",
            "--json",
            "--home",
            str(home),
        ],
        environment=clean_environment(),
        folder=tmp_path,
        stdout=log,
        stderr=errors,
        seconds_per_text=0,
    )

    def reports() -> list[dict[str, Any]]:
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def last() -> dict[str, str]:
        return outcomes(reports()[-1], folder)

    wait_for(lambda: len(reports()) == 1)
    assert set(last().values()) == {"indexed"}
    (folder / "a.md").write_text("# A\n\nchanged\n")
    wait_for(lambda: last().get("a.md") == "indexed" and len(reports()) > 1)
    (folder / "notes.txt").unlink()
    make_folder(folder, {"sub/new.md": "# New\n\nnew\n"})
    wait_for(lambda: any("deleted" in outcomes(r, folder).values() for r in reports()))
    wait_for(lambda: any(outcomes(r, folder).get("sub/new.md") == "indexed" for r in reports()))
    count = len(reports())
    time.sleep(1.0)
    assert len(reports()) <= count + 1  # one more, where the last changes came apart
    os.killpg(group, signal.SIGINT)
    assert driver().ended() == 0
    assert "Traceback" not in errors.read_text()
    assert documents(home) == ["kb/a.md", "kb/net/b.md", "kb/net/c.csv", "kb/sub/new.md"]


# -- two processes --------------------------------------------------------------------------------


def test_two_processes_that_ingest_one_document_end_as_one_of_them(
    engines: Any, home: Path, tmp_path: Path
) -> None:
    environment = clean_environment({"KNOWPORT_MILVUS__URI": engines.uri("lite-server")})
    versions = [page(f"V{n}", [f"{n} {part}" for part in range(4 + 9 * n)]) for n in range(2)]
    folders = [make_folder(tmp_path / str(n), {"a.md": versions[n]}) for n in range(2)]
    both = [Driver(), Driver()]
    try:
        for turn in range(3):
            for number, one in enumerate(both):
                one.start(
                    do="cli",
                    arguments=["ingest", str(folders[number]), "--source", "kb", "--force",
                               "--home", str(home)],
                    environment=environment,
                    folder=tmp_path,
                    stdout=tmp_path / f"out{turn}{number}",
                    stderr=tmp_path / f"err{turn}{number}",
                    seconds_per_text=0,
                )  # fmt: skip
            ends = [one.ended() for one in both]
            said = "".join(path.read_text() for path in tmp_path.glob(f"err{turn}*"))
            assert ends == [0, 0], said
    finally:
        for one in both:
            one.close()
    settings = Settings(home=home, milvus={"uri": engines.uri("lite-server")})
    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        (info,) = kb.documents()
        _, document = kb.document("kb/a.md")
        assert document.text in versions
        assert info.state == "indexed"
        assert info.chunk_count == 4 + 9 * versions.index(document.text)
        expected = {f"kb/a.md#chunk-{n}" for n in range(info.chunk_count)}
        assert sorted(stored_chunks(kb)) == sorted(expected)


@pytest.mark.parametrize(("options", "code"), [((), 2), (("--delete-missing",), 8)])
def test_a_folder_without_documents_does_not_take_a_source_over(
    tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    home = tmp_path / "home"
    folder = make_folder(tmp_path / "one" / "docs", {"a.md": "# A\n\ntext\n"})
    empty = tmp_path / "two" / "docs"
    empty.mkdir(parents=True)

    def ingest(path: Path, *more: str) -> int:
        return knowport("ingest", path, *more, home=home, hash_embedder=True).returncode

    assert ingest(folder) == 0
    assert ingest(empty, "--source=docs", *options) == code
    assert ingest(folder) == 0
