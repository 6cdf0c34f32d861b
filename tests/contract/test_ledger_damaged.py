"""A ledger that is full, damaged, lost or not one: what is said, and that the remedy works."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from knowport import KnowledgeBase
from knowport.adapters.ledger import SqlLedger
from knowport.adapters.ledger.failures import translated
from knowport.errors import ConfigurationError, LedgerError, LedgerFull
from support import HashEmbedder

from .ledgers import failure

# -- full -------------------------------------------------------------------------------------


def of_sqlite(name: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(name)
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error


def test_a_full_disk_of_postgresql_is_told() -> None:
    said = 'could not extend file "base/5/1": No space left on device'

    with pytest.raises(LedgerFull) as error, translated("postgresql://db/k"):
        raise OperationalError("INSERT", {}, psycopg.errors.DiskFull(said))

    assert error.value.message == (
        "The disk is full: the ledger postgresql://db/k cannot be written."
    )
    assert "on the database server" in error.value.remedy


@pytest.mark.parametrize(
    ("name", "code", "free", "full"),
    [
        ("SQLITE_FULL", 13, 10**9, True),
        ("SQLITE_IOERR_WRITE", 778, 0, True),
        ("SQLITE_IOERR_SHMSIZE", 4874, 8_000, True),
        ("SQLITE_CANTOPEN", 14, 0, True),
        ("SQLITE_IOERR_WRITE", 778, 10**9, False),
        ("SQLITE_CANTOPEN", 14, 10**9, False),
        ("SQLITE_ERROR", 1, 0, False),
    ],
)
def test_a_failure_of_the_disk_is_a_full_one_only_where_it_is_full(
    tmp_path: Path, monkeypatch, name: str, code: int, free: int, full: bool
) -> None:
    disk = SimpleNamespace(f_blocks=9, f_files=9, f_favail=9, f_frsize=1, f_bavail=free)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    file = tmp_path / "ledger.sqlite3"

    with pytest.raises(LedgerError) as error, translated(str(file), file):
        raise OperationalError("INSERT", {}, of_sqlite(name, code))

    assert isinstance(error.value, LedgerFull) is full
    assert ("disk is full" in error.value.message) is full
    assert str(tmp_path) in error.value.message


@pytest.mark.parametrize("part", ["folder", "lock"])
def test_a_disk_without_room_for_another_file(tmp_path: Path, monkeypatch, part: str) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    url = f"sqlite:///{tmp_path}/{'new/' if part == 'folder' else ''}ledger.sqlite3"
    if part == "folder":
        monkeypatch.setattr(Path, "mkdir", no_room)
        with pytest.raises(LedgerFull):
            SqlLedger(url)
        return
    ledger = SqlLedger(url)
    monkeypatch.setattr(os, "open", no_room)
    with pytest.raises(LedgerFull), ledger.exclusive():
        pass
    monkeypatch.undo()
    ledger.close()


# -- damaged ----------------------------------------------------------------------------------

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one document, that nobody has open."""
    home = tmp_path_factory.mktemp("whole") / "home"
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        kb.put("a", "# A\n\nalpha")
    return home


def spoilt(start: int, end: int) -> Callable[[Path], object]:
    def spoil(file: Path) -> None:
        data = bytearray(file.read_bytes())
        noise = random.Random(start).randbytes(len(data[start:end]))
        data[start:end] = noise
        file.write_bytes(data)

    return spoil


def as_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def cut(file: Path) -> None:
    os.truncate(file, 5 * PAGE + 100)


def not_json(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE generations SET analyzer = '{{'")
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [spoilt(0, PAGE), spoilt(3_000, 6_000), spoilt(PAGE, 12 * PAGE), as_folder, cut, not_json],
)
def test_what_is_damaged_is_named_and_the_remedy_works(
    whole: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(whole, home)
    file = home / "ledger.sqlite3"
    damage(file)

    message, _ = failure(lambda: KnowledgeBase(home, embedder=HashEmbedder()))

    assert message.startswith(f"The ledger {file} is damaged")
    with pytest.raises(LedgerError, match=r"move it and the index away \(milvus\.db"):
        KnowledgeBase(home, embedder=HashEmbedder())
    file.rename(tmp_path / "old")
    (home / "milvus.db").rename(tmp_path / "old.db")
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        kb.put("a", "# A\n\nalpha")
        assert kb.lookup("alpha").found


def foreign(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE others (a)")
    connection.close()


def foreign_alembic(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num)")
    connection.close()


@pytest.mark.parametrize("make", [foreign, foreign_alembic])
def test_the_database_of_another_program_is_refused_and_gets_no_tables(
    whole: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    file = tmp_path / "ledger.sqlite3"
    shutil.copy(whole / "ledger.sqlite3", file)
    make(file)

    with pytest.raises(ConfigurationError, match="the database of another program") as error:
        SqlLedger(f"sqlite:///{file}")

    assert str(file) in error.value.message
    with sqlite3.connect(file) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'")
        assert tables.fetchone() == (1,)
    connection.close()


@pytest.mark.parametrize("lose", [Path.unlink, lambda file: os.truncate(file, 0)])
def test_a_lost_ledger_is_no_empty_index(
    whole: Path, tmp_path: Path, lose: Callable[[Path], object]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(whole, home)
    lose(home / "ledger.sqlite3")

    with pytest.raises(ConfigurationError, match="already holds biz_g1") as error:
        KnowledgeBase(home, embedder=HashEmbedder())

    assert str(home / "ledger.sqlite3") in error.value.message
    assert f"move {home / 'milvus.db'} away" in error.value.remedy
    (home / "milvus.db").rename(tmp_path / "old.db")
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert kb.lookup("alpha").notices[0].code == "empty_index"
        kb.put("a", "# A\n\nalpha")
        assert kb.lookup("alpha").found
