"""A disk that fills up, on a small file system of its own: it is said, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from http_service import running
from knowport import KnowledgeBase, load_settings
from knowport.adapters.milvus import room
from knowport.errors import EngineFull, KnowportError, LedgerFull
from knowport.pipelines import rebuild_fill
from knowport.pipelines.rebuild_ports import RebuildProgress
from rebuilds import text_of
from support import HashEmbedder, knowport, make_folder, mark, page

FULL = (EngineFull, LedgerFull)
MEGABYTE = 1 << 20


class Disk:
    """A disk of 24 MB that can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._ballast = folder, folder / "ballast"

    def fill(self, left: int = 0) -> None:
        """Leave so many bytes free."""
        self.free()
        disk = os.statvfs(self.folder)
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - left)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield Disk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def opened(home: Path, **settings: str) -> KnowledgeBase:
    chosen = load_settings({"home": home, **({"milvus": settings} if settings else {})})
    return KnowledgeBase(settings=chosen, embedder=HashEmbedder())


def says_full(error: KnowportError, folder: Path) -> bool:
    return "disk is full" in error.message and str(folder) in error.message and bool(error.remedy)


def test_an_engine_without_room_refuses_to_write_and_loses_nothing(
    disk: Disk, tmp_path: Path
) -> None:
    """Lite itself would call each of these done, and have forgotten it at the next start."""
    home, uri = tmp_path / "home", str(disk.folder / "milvus.db")
    with opened(home, uri=uri) as kb:
        kb.put("a", "# A\n\nalpha")
        kb.put("b", "# B\n\nbeta")
        for left in (0, 100_000, MEGABYTE):
            disk.fill(left)
            for write in (
                lambda: kb.put("c", "# C\n\ngamma"),
                lambda: kb.ingest(make_folder(tmp_path / "kb", {"d.md": "# D\n\ndelta\n"})),
                lambda: kb._parts.index.delete_by_doc_id("b"),
                kb._parts.index.drop,
            ):
                with pytest.raises(EngineFull) as error:
                    write()
                assert says_full(error.value, disk.folder)
            assert kb.lookup("alpha").found

    with opened(home, uri=uri) as kb:  # still full: what can be read is read
        assert kb.lookup("beta").found
        assert any("disk is full" in warning for warning in kb.warnings)
    disk.free()
    with opened(home, uri=uri) as kb:
        assert kb.audit().findings == ()
        assert [info.doc_id for info in kb.documents()] == ["a", "b", "c", "kb/d.md"]


def test_a_first_ingest_without_room_makes_nothing(disk: Disk, tmp_path: Path) -> None:
    uri = disk.folder / "milvus.db"
    disk.fill()
    with opened(tmp_path / "home", uri=str(uri)) as kb, pytest.raises(EngineFull):
        kb.put("a", "# A\n\nalpha")

    assert not uri.exists()


@pytest.mark.parametrize("left", [0, 40_000, 200_000])
def test_a_home_without_room(disk: Disk, left: int) -> None:
    home = disk.folder / "home"
    with opened(home) as kb:
        kb.put("a", "# A\n\nalpha")
    disk.fill(left)
    long = page("Long", [f"part {n} " * 60 for n in range(60)])

    with pytest.raises(FULL) as error, opened(home) as kb:
        kb.put("b", long)

    assert says_full(error.value, home)
    disk.free()
    with opened(home) as kb:
        assert kb.put("b", long).chunks
        assert kb.audit().findings == ()
        assert kb.lookup("alpha").evidence[0].document_id.startswith("a#")


@pytest.mark.parametrize("left", [0, 200_000])
def test_a_disk_that_fills_up_in_the_middle_of_a_rebuild(
    disk: Disk, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, the active generation answers, and with room again the same command goes on."""
    monkeypatch.setattr(rebuild_fill, "GROUP_DOCUMENTS", 2)
    home = disk.folder / "home"
    with opened(home) as kb:
        for number in range(8):
            kb.put(f"d{number}", text_of(number))
    settings = load_settings({"home": home, "chunking": {"size": 300}})
    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        told: list[RebuildProgress] = []

        def fill(now: RebuildProgress) -> None:
            told.append(now)
            if now.done and now.step == "build":
                disk.fill(left)

        with pytest.raises(FULL) as error:
            kb.rebuild.run(sample=5, on_progress=fill)
        assert says_full(error.value, disk.folder)
        assert told[-1].done, "in the middle"
        assert kb.status().generation == "g1"
        assert kb.lookup(mark("first", 3, 0, 0)).evidence[0].document_id.startswith("d3#")
        disk.free()
        assert kb.rebuild.run(sample=5).switch is not None
        assert kb.audit(sample=None).findings == ()
        assert len(kb.documents()) == 8


@pytest.mark.parametrize("command", [("lookup", "alpha"), ("status",), ("documents", "list")])
def test_the_command_line_says_so(disk: Disk, command: tuple[str, ...]) -> None:
    home = disk.folder / "home"
    with opened(home) as kb:
        kb.put("a", "# A\n\nalpha")
    disk.fill()

    done = knowport(*command, home=home, hash_embedder=True)

    assert done.returncode == LedgerFull.exit_code
    assert done.stderr.startswith(f"Error: The disk is full: {home} has 0 KiB left, and ")
    assert str(home / "ledger.sqlite3") in done.stderr
    assert "Free space there, then run the same again." in done.stderr


def test_a_service_answers_507_and_goes_on(disk: Disk) -> None:
    home = disk.folder / "home"
    with running(home) as service:
        disk.fill()
        body = {"id": "new.md", "text": "# New\n\n" + "words " * 50_000}
        refused = service.client.put("/v1/documents", json=body)
        answer = service.client.post("/v1/lookup", json={"query": "ERROR 1205"})
        disk.free()
        stored = service.client.put("/v1/documents", json={"id": "new.md", "text": "# New\n\nn"})

    problem = refused.json()
    assert refused.status_code == problem["status"] == 507
    assert problem["code"] in {kind.code for kind in FULL}
    assert problem["title"] == "Insufficient Storage"
    assert "disk is full" in problem["detail"]
    assert str(home) in problem["detail"]
    assert problem["remedy"]
    assert not problem["transient"]
    assert answer.json()["found"]
    assert stored.status_code in (200, 201)


# -- without a file system of its own -------------------------------------------------------------


def disk_with(free: int) -> SimpleNamespace:
    return SimpleNamespace(f_blocks=9, f_files=9, f_favail=9, f_frsize=1, f_bavail=free)


def test_room_is_asked_for_before_and_after(tmp_path: Path, monkeypatch) -> None:
    uri, said = str(tmp_path / "milvus.db"), [0]
    monkeypatch.setattr(os, "statvfs", lambda _: disk_with(said[0]))

    said[0] = room.RESERVE + 4_000
    with room.room(uri, 1_000):
        pass
    with pytest.raises(EngineFull, match="is not written to"), room.room(uri, 1_001):
        raise AssertionError("it was written")
    with pytest.raises(EngineFull, match="may not hold"), room.room(uri):
        said[0] = 0
    with room.room("http://milvus:19530", 1_000):  # not our disk
        pass
    monkeypatch.setattr(os, "statvfs", lambda _: disk_with(0).__class__(f_blocks=0))
    with room.room(uri):  # a disk that does not say
        pass
