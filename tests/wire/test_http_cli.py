"""Commands that ask a running service, and what they say when they find its index in use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from http_service import FILES, Running, running
from knowport.client import Client
from knowport.entrypoints.remote import service_named
from knowport.entrypoints.running import announced, running_service
from knowport.entrypoints.upload import upload
from support import knowport, make_folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("cli") / "home"
    with running(home) as one, announced(home, one.url):
        yield one


@pytest.fixture
def command(served: Running):
    """Runs a command that is told the service."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        home = served.kb.settings.home
        return knowport(*arguments, f"--server={served.url}", home=home, hash_embedder=True)

    return run


def test_a_command_that_finds_the_index_in_use_names_the_service(served: Running) -> None:
    done = knowport("lookup", "x", home=served.kb.settings.home, hash_embedder=True)

    assert done.returncode == 5
    assert served.url in done.stderr
    assert "--server" in done.stderr


def test_lookup_explain_and_trace_ask_the_service(command) -> None:
    found = json.loads(command("lookup", "ERROR 1205 (HY000)", "--json").stdout)
    shown = command("lookup", "ERROR 1205 (HY000)")
    nothing = command("lookup", "ERROR 1205", "--category=none", "--json")
    why = command("explain", "ERROR 1205", "-d", "kb/gone.md", "--json")
    trace = command("trace", found["lookup_id"])

    assert found["evidence"][0]["document_id"] == "kb/mysql/lock-wait.md#chunk-0"
    assert "kb/mysql/lock-wait.md#chunk-0" in shown.stdout
    assert nothing.returncode == 1
    assert json.loads(why.stdout)["document"]["reason"] == "not_in_index"
    assert json.loads(trace.stdout)["lookup_id"] == found["lookup_id"]


def test_documents_and_status_ask_the_service(command) -> None:
    listed = command("documents", "list", "--json")
    shown = command("documents", "show", "kb/notes.txt")
    none = command("documents", "show", "kb/none")
    status = command("status", "--json")

    assert [row["doc_id"] for row in json.loads(listed.stdout)] == sorted(
        f"kb/{name}" for name in FILES
    )
    assert "HP-950XL" in shown.stdout
    assert none.returncode == 9
    assert json.loads(status.stdout)["documents"] == len(FILES)
    assert "documents   3" in command("status").stdout


def test_files_are_sent_to_the_service(command, tmp_path: Path) -> None:
    files = {"a.md": "# A\n\nZebra.", "b.bin": b"\0\1\2", "c.md": "", "in/d.txt": "Delta."}
    folder = make_folder(tmp_path / "more", files)

    sent = command("ingest", folder, "--json", "--category-from-folder")
    again = command("ingest", folder / "a.md", "--source=more")
    shown = json.loads(command("documents", "show", "more/in/d.txt", "--json").stdout)
    gone = [command("documents", "delete", f"more/{name}") for name in ("a.md", "in/d.txt")]
    watched = command("ingest", folder, "--watch")

    report = json.loads(sent.stdout)
    assert {Path(f["path"]).name: (f["outcome"], f["reason"]) for f in report["files"]} == {
        "a.md": ("indexed", "new"),
        "b.bin": ("skipped", "unsupported_format"),
        "c.md": ("skipped", "empty"),
        "d.txt": ("indexed", "new"),
    }
    assert sent.returncode == 0
    assert again.stdout.startswith("0 indexed, 1 unchanged")
    assert (shown["category"], shown["text"], shown["source"]) == ("in", "Delta.", "more")
    assert [one.stdout for one in gone] == [
        "Deleted more/a.md: 1 chunk.\n",
        "Deleted more/in/d.txt: 1 chunk.\n",
    ]
    assert watched.returncode == 2
    assert "--watch" in watched.stderr


def test_a_file_has_the_same_outcome_here_and_over_a_service(
    served: Running, command, tmp_path: Path
) -> None:
    """Of files that are no document, and of those that were one before."""
    before = {"was.md": "# Was\n\nOnce.", "grew.md": "# G\n\nSmall."}
    after = {
        "was.md": "",
        "grew.md": b"\0\1\2\3",
        "empty.md": "",
        "blank.txt": " \n\n\t\n",
        "front.md": "---\ntitle: only this\n---\n",
        "tags.html": "<html><body><p></p></body></html>",
        "program.bin": b"\x7fELF\0\0\1",
        "picture.png": b"\x89PNG\r\n\x1a\n\0\0",
        "bad.pdf": b"%PDF-1.4\nnothing",
        "broken.docx": b"PK\3\4nothing",
        "fine.md": "# Fine\n\nWell.",
    }
    folder, home = tmp_path / "outcomes", tmp_path / "local"

    def told(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
        files = json.loads(done.stdout)["files"]
        return {Path(file["path"]).name: (file["outcome"], file["reason"]) for file in files}

    for files in (before, after):
        make_folder(folder, files)
        (folder / "link.md").unlink(missing_ok=True)
        (folder / "link.md").symlink_to(folder / "fine.md")
        here = knowport("ingest", folder, "--json", home=home, hash_embedder=True)
        there = command("ingest", folder, "--json")
        assert told(here) == told(there)
        assert here.returncode == there.returncode

    assert told(there)["empty.md"] == ("skipped", "empty")
    assert told(there)["was.md"] == ("failed", "empty")
    assert {outcome for outcome, _ in told(there).values()} == {"skipped", "failed", "indexed"}
    for name in ("was.md", "grew.md", "fine.md"):
        served.kb.delete(f"outcomes/{name}")


def test_the_domains_of_a_folder_are_sent_with_its_files(command, tmp_path: Path) -> None:
    catalogue = '[[domain]]\nid = "animals"\nnames = ["Zebra"]\n'
    folder = make_folder(tmp_path / "zoo", {"a.md": "# A\n\nZebra.", "domains.toml": catalogue})

    def domains() -> list[str]:
        return json.loads(command("explain", "zebra", "--json").stdout)["plan"]["domains"]

    assert command("ingest", folder).returncode == 0
    assert domains() == ["animals"]
    (folder / "domains.toml").unlink()
    assert command("ingest", folder / "a.md", "--source=zoo").returncode == 0
    assert domains() == ["animals"]  # a single file says nothing of them
    assert command("ingest", folder).returncode == 0
    assert domains() == []
    command("documents", "delete", "zoo/a.md")


def test_nothing_is_sent_of_a_folder_whose_domains_are_bad(command, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bad", {"a.md": "# A\n\nOkapi.", "domains.toml": "[[domain"})

    here = knowport("ingest", folder, home=tmp_path / "home", hash_embedder=True)
    there = command("ingest", folder)

    assert (there.returncode, there.stderr) == (here.returncode, here.stderr)
    assert there.returncode == 3
    assert command("documents", "show", "bad/a.md").returncode == 9


def test_domains_are_not_sent_when_the_files_were_not_all(served: Running, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "cut", {"a.md": "# A", "domains.toml": ""})
    with Client(served.url) as client:
        client.set_domains('[[domain]]\nid = "apes"\nnames = ["bonobo"]\n', source="cut")
        report = upload(
            client,
            folder,
            source=None,
            category=None,
            category_from_folder=False,
            kb_scope=None,
            include=(),
            exclude=(),
            should_stop=lambda: True,
        )

        assert report.interrupted
        assert client.explain("bonobo")["plan"]["domains"] == ["apes"]
        assert client.set_domains(None, source="cut") == ()


def test_no_trace_of_a_lookup_is_an_unknown_thing(command, tmp_path: Path) -> None:
    there = command("trace", "lk_nope")
    here = knowport("trace", "lk_nope", home=tmp_path / "home", hash_embedder=True)

    assert (there.returncode, here.returncode) == (9, 9)
    assert "There is no trace of 'lk_nope'." in there.stderr
    assert "There is no trace of 'lk_nope'." in here.stderr


def test_a_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = knowport("lookup", "x", "--server=http://127.0.0.1:1", home=tmp_path / "home")

    assert done.returncode not in (0, 1, 10)
    assert "http://127.0.0.1:1" in done.stderr


def test_the_environment_names_the_service_unless_a_home_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNOWPORT_SERVER", "http://a.example")

    assert service_named(None, None, None) is not None
    assert service_named(None, tmp_path, None) is None
    assert service_named(None, None, tmp_path / "x.toml") is None
    monkeypatch.setenv("KNOWPORT_SERVER", "")
    assert service_named(None, None, None) is None
    assert service_named("http://b.example", tmp_path, None) is not None


@pytest.mark.parametrize(
    "said", ["", "[]", '{"pid": "1", "url": 2}', '{"pid": 999999999, "url": "u"}']
)
def test_what_a_killed_service_left_is_no_service(tmp_path: Path, said: str) -> None:
    (tmp_path / "server.json").write_text(said)

    assert running_service(tmp_path) is None
    with announced(tmp_path, "http://x"):
        assert running_service(tmp_path) == "http://x"
    assert running_service(tmp_path) is None
    assert not (tmp_path / "server.json").exists()
