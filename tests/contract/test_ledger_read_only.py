"""A ledger on a read-only disk or in a folder of somebody else, and one whose disk is full."""

import os
import shutil
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event

from knowport import KnowledgeBase, load_settings
from knowport.adapters.ledger import SqlLedger, database
from knowport.adapters.ledger.migrations import configuration
from knowport.adapters.milvus import Engine
from knowport.errors import ConfigurationError, LedgerBusy, LedgerError
from support import HashEmbedder

from .ledgers import DOCUMENT, EMBEDDER, GENERATION, failure, ids, marks, planned, write

NOBODY = 65534


@pytest.fixture
def home():
    """A folder that an ordinary user may enter, and not write."""
    folder = Path(tempfile.mkdtemp(prefix="knowport-ro-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def read_only(home):
    """Makes the home read-only for this process, which must not be root for that to count."""
    user = os.geteuid()

    def protect():
        for path in home.iterdir():
            path.chmod(0o444)
        home.chmod(0o555)
        if user == 0:
            os.seteuid(NOBODY)

    yield protect
    os.seteuid(user)


@pytest.fixture
def url(home):
    return f"sqlite:///{home / 'ledger.sqlite3'}"


def fill(ledger):
    ledger.save_generation(GENERATION)
    write(ledger, "a", "b", chunks=2)
    ledger.store_catalogue("ops", "# one", kb_scope="s")
    ledger.store_trace("lk_1", {"n": 1})


def check_reading(ledger):
    assert ledger.read_only
    assert ledger.active_generation() == GENERATION
    assert ledger.generations() == (GENERATION,)
    assert ids(ledger.documents()) == ("a", "b")
    assert ledger.document_text("a").text == DOCUMENT.text
    assert ledger.marks(["a"]) == {"a": marks(2)}
    assert len(ledger.versions("a")) == 1
    assert ledger.unfinished() == ()
    assert ledger.catalogues() == {"s": {"ops": "# one"}}
    assert ledger.trace("lk_1") == {"n": 1}
    assert ledger.cached_vectors(EMBEDDER, ["x"]) == {}
    assert ledger.key_of_hash("x") is None


def check_writing(ledger):
    def hold():
        with ledger.exclusive():
            pass

    for call in (
        lambda: ledger.store_trace("lk_2", {}),
        lambda: ledger.begin_writes([planned()]),
        lambda: ledger.begin_delete("a"),
        lambda: ledger.activate("g1", activated_at="", forced=False),
        hold,
    ):
        message, _ = failure(call)
        assert message.endswith("can be read only, and this would write to it.")


def test_a_ledger_that_nobody_has_open(url, home, read_only):
    ledger = SqlLedger(url)
    fill(ledger)
    ledger.close()
    assert [path.name for path in home.iterdir()] == ["ledger.sqlite3"]
    read_only()

    ledger = SqlLedger(url)

    check_reading(ledger)
    check_writing(ledger)
    assert [path.name for path in home.iterdir()] == ["ledger.sqlite3"]
    ledger.close()


def test_a_ledger_that_a_writer_has_open(url, read_only):
    writer = SqlLedger(url)
    fill(writer)
    read_only()

    ledger = SqlLedger(url)

    check_reading(ledger)
    check_writing(ledger)
    writer.store_catalogue("wiki", "# two", kb_scope="s")  # by its open connection
    assert ledger.catalogues() == {"s": {"ops": "# one", "wiki": "# two"}}
    ledger.close()
    writer.close()


def test_a_ledger_whose_writer_was_killed(url, home, read_only):
    ledger = SqlLedger(url)
    fill(ledger)
    copies = {path.name: path.read_bytes() for path in home.iterdir()}
    ledger.close()
    assert "ledger.sqlite3-wal" in copies
    for name, content in copies.items():
        (home / name).write_bytes(content)
    read_only()

    ledger = SqlLedger(url)

    check_reading(ledger)
    ledger.close()


def test_an_older_ledger_cannot_be_brought_up_to_date(url, home, read_only):
    from alembic import command

    engine = create_engine(url)
    with engine.begin() as connection:
        command.upgrade(configuration(connection), "0001")
    engine.dispose()
    read_only()

    message, _ = failure(SqlLedger, url)

    assert "was written by an older Knowport and cannot be brought up to date" in message


def test_a_read_only_folder_without_a_ledger(url, read_only):
    read_only()

    message, _ = failure(SqlLedger, url)

    assert message.endswith("unable to open database file.")


def test_a_file_that_is_empty_and_read_only(url, home, read_only):
    (home / "ledger.sqlite3").touch()
    read_only()

    message, _ = failure(SqlLedger, url)

    assert "has no tables yet and cannot get them" in message


# -- a whole home -----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["folder", "file"])
def test_the_embedded_engine_says_that_it_must_write(home, read_only, what):
    uri = home / "milvus.db"
    uri.touch()
    read_only()
    if what == "file":
        os.seteuid(0)
        home.chmod(0o777)
        os.seteuid(NOBODY)

    with pytest.raises(ConfigurationError, match="can be read only") as error:
        Engine.connect(str(uri))

    assert str(home if what == "folder" else uri) in error.value.message
    assert "milvus.uri" in error.value.remedy


def test_a_read_only_home_answers_over_a_server(home, read_only, engines):
    settings = load_settings(
        {"home": home, "milvus": {"uri": engines.uri("lite-server"), "collection": "read_only"}}
    )
    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        kb.put("a", "# A\n\nalpha")
    read_only()

    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        answer = kb.lookup("alpha")
        with pytest.raises(LedgerError, match="can be read only"):
            kb.put("b", "# B\n\nbeta")

    assert answer.found
    assert [notice.code for notice in answer.notices] == ["trace_not_stored"]


# -- full and locked --------------------------------------------------------------------------


def test_a_full_disk(url):
    ledger = SqlLedger(url)
    fill(ledger)
    pages = "PRAGMA max_page_count=1"  # SQLite takes no less than there are

    @event.listens_for(ledger._database.engine, "checkout")
    def _limit(connection, *_):
        connection.execute(pages)

    big = replace(DOCUMENT, doc_id="big", text="x" * 1_000_000)
    message, _ = failure(ledger.begin_writes, [planned(big)])
    file = url.removeprefix("sqlite:///")
    assert message.startswith(f"The disk is full: {Path(file).parent} has ")
    assert message.endswith(f"and the ledger {file} cannot be written.")
    message, _ = failure(ledger.store_trace, "lk_2", {"text": "x" * 1_000_000})
    assert message.startswith("The disk is full: ")

    assert ids(ledger.documents()) == ("a", "b")
    assert ledger.trace("lk_2") is None
    pages = "PRAGMA max_page_count=1000000"
    ledger.begin_writes([planned(big)])
    assert ids(ledger.unfinished()) == ("big",)
    ledger.close()


def test_a_writer_that_does_not_let_go(url, home, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.2)
    ledger = SqlLedger(url)
    fill(ledger)
    other = sqlite3.connect(home / "ledger.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(LedgerBusy) as error:
        ledger.store_catalogue("a", "b", kb_scope="s")

    assert "Another process is writing to the ledger" in error.value.message
    assert ids(ledger.documents()) == ("a", "b")
    other.execute("ROLLBACK")
    other.close()
    ledger.store_catalogue("a", "b", kb_scope="s")
    ledger.close()


def test_a_full_disk_does_not_keep_the_lock_from_being_taken(url, monkeypatch):
    """To delete is a way out of a full disk, and is done by a writer."""
    ledger = SqlLedger(url)
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    Path(f"{url.removeprefix('sqlite:///')}.lock").symlink_to(full)

    with ledger.exclusive():
        pass
    ledger.close()
