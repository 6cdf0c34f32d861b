"""What a ledger says when something is wrong, and that it never says it with a password."""

import sqlite3
import threading
import traceback
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

import postgres
from engines import free_port
from knowport.adapters.ledger import SqlLedger
from knowport.errors import ConfigurationError
from knowport.settings import load_settings

from .ledgers import DOCUMENT, GENERATION, failure, ids, planned, write


def drop_documents(url):
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute("DROP TABLE documents")
    else:
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            connection.execute("DROP TABLE documents")


def test_a_failure_is_an_error_and_never_an_empty_answer(url, ledger):
    drop_documents(url)

    for call in (
        ledger.documents,
        ledger.unfinished,
        lambda: ledger.categories("default"),
        lambda: ledger.document("a"),
        lambda: ledger.document_text("a"),
        lambda: ledger.begin_writes([planned(DOCUMENT, 1)]),
        lambda: ledger.commit_writes(["a"], generation="g1"),
        lambda: ledger.begin_delete("a"),
        lambda: ledger.commit_delete("a"),
    ):
        message, _ = failure(call)
        assert "documents" in message


def test_a_refused_write_leaves_what_was_there(ledger):
    ledger.save_generation(GENERATION)

    failure(ledger.save_generation, replace(GENERATION, schema_version=2, proved_on=None))

    assert ledger.active_generation() == GENERATION


def test_a_file_that_is_no_database_is_an_error(tmp_path):
    file = tmp_path / "ledger.sqlite3"
    file.write_text("This is no database. " * 100)

    message, _ = failure(SqlLedger, f"sqlite:///{file}")

    assert message == f"The ledger {file} is damaged or is none: file is not a database."
    assert file.read_text().startswith("This is no database.")


def test_a_folder_that_cannot_be_made_is_a_wrong_setting(tmp_path):
    (tmp_path / "home").write_text("a file")

    with pytest.raises(ConfigurationError) as error:
        SqlLedger(f"sqlite:///{tmp_path}/home/kb/ledger.sqlite3")

    assert error.value.message.startswith("The folder of the ledger cannot be made: ")
    assert "KNOWPORT_HOME" in error.value.remedy


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path):
    message, _ = failure(SqlLedger, f"sqlite:///{tmp_path}")

    assert message == f"The ledger {tmp_path} is damaged or is none: it is a folder."


@pytest.mark.parametrize(
    "home", ["plain", "a/b/c", "what?mode=ro", "100%25", "a#b", "中 文", "é&;"]
)
def test_the_file_lies_in_home_whatever_its_name(tmp_path, home):
    settings = load_settings({"home": tmp_path / home})

    ledger = SqlLedger(settings.ledger_url)
    write(ledger, "a")
    ledger.close()

    assert (tmp_path / home / "ledger.sqlite3").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [Path(home).parts[0]]


def test_readers_go_on_while_another_process_writes(tmp_path):
    file = tmp_path / "ledger.sqlite3"
    ledger = SqlLedger(f"sqlite:///{file}")
    write(ledger, "a")
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    other.execute("DELETE FROM documents")

    assert ids(ledger.documents()) == ("a",)
    # and a writer waits for it
    timer = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    timer.start()
    write(ledger, "b")
    timer.join()

    assert ids(ledger.documents()) == ("a", "b")
    ledger.close()
    other.close()


SECRET = "hunter2-sentinel"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://u:{SECRET}@127.0.0.1:{{port}}/k",
        f"postgresql+psycopg://u@127.0.0.1:{{port}}/k?password={SECRET}",
    ],
)
def test_a_server_that_is_away_is_an_error_without_the_password(url):
    message, shown = failure(SqlLedger, url.format(port=free_port()))

    assert "Connection refused" in message
    assert "127.0.0.1" in message
    assert SECRET not in shown


def test_a_wrong_password_is_an_error_without_the_password(server):
    message, shown = failure(SqlLedger, server.url(password=SECRET))

    assert 'password authentication failed for user "postgres"' in message
    assert SECRET not in shown


def test_a_database_that_is_not_there_is_an_error(server):
    message, shown = failure(SqlLedger, server.url("gone"))

    assert 'database "gone" does not exist' in message
    assert postgres.PASSWORD not in shown


def test_a_connection_that_the_server_has_closed_is_replaced(server):
    ledger = SqlLedger(server.url())
    assert ledger.documents() == ()

    server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )

    assert ledger.documents() == ()
    ledger.close()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (f"no url {SECRET}", "it is not a URL"),
        ("", "it is not a URL"),
        # a colon or slash in a password must be encoded, or it is read as a port
        (f"postgresql+psycopg://db:{SECRET}/k", "it is not a URL"),
        (f"mysql+pymysql://u:{SECRET}@db/k", "mysql is not supported"),
        (f"redis://u:{SECRET}@db/0", "redis is not supported"),
        (f"postgresql+nodriver://u:{SECRET}@db/k", "Can't load plugin"),
    ],
)
def test_a_url_that_cannot_be_used_is_a_wrong_setting_without_the_password(url, problem):
    with pytest.raises(ConfigurationError) as error:
        SqlLedger(url)

    assert error.value.message.startswith(f"ledger.url cannot be used: {problem}")
    assert "postgresql+psycopg://user:password@host/database" in error.value.remedy
    assert SECRET not in "".join(traceback.format_exception(error.value))


def test_a_url_may_be_given_in_parts(tmp_path):
    ledger = SqlLedger(URL.create("sqlite", database=str(tmp_path / "a?b")))
    ledger.close()

    assert (tmp_path / "a?b").is_file()
