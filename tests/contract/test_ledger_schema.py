"""The tables of a ledger and their migration, on SQLite and PostgreSQL."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from knowport.adapters.ledger import SqlLedger, schema
from knowport.adapters.ledger.migrations import configuration, upgrade
from knowport.adapters.ledger.tables import METADATA
from knowport.errors import ConfigurationError
from knowport.model import Document, DocumentVersion

from .ledgers import EMBEDDER, GENERATION, IN_ORDER, failure, ids, marks, write

INDEXES = {
    "generations": {"generations_one_active"},
    "documents": {"documents_by_scope", "documents_by_category", "documents_unfinished"},
    "versions": {"versions_by_document", "versions_one_current"},
    "traces": {"ix_traces_created_at"},
}
NAMES = {name for names in INDEXES.values() for name in names}


@pytest.fixture
def connection(url, tmp_path):
    """To an empty database."""
    (tmp_path / "home").mkdir()
    engine = create_engine(url)
    with engine.connect() as open_one:
        yield open_one
    engine.dispose()


def run(connection, *statements):
    for statement in statements:
        connection.execute(text(statement))
    connection.commit()


@pytest.fixture
def first(connection):
    """A database with the first tables and no version, as before there were migrations."""
    command.upgrade(configuration(connection), "0001")
    run(connection, "DROP TABLE alembic_version")
    return connection


def fill(connection):
    """What a ledger of the first version held."""
    embedder = (
        '{"provider": "openai", "model": "m", "dimension": 4,'
        ' "query_prefix": "query: ", "document_prefix": "passage: "}'
    ).replace(":", r"\:")
    run(
        connection,
        "INSERT INTO generations (name, collection, embedder, analyzer, schema_version, lexical,"
        " proved_on, active, created_at) VALUES"
        f" ('g0', 'c0', '{embedder}', '{{}}', 1, false, '', false, '2026-01-01'),"
        f" ('g1', 'biz_g1', '{embedder}', '{{}}', 1, true, '2.5', true, '2026-01-02')",
        "INSERT INTO documents (doc_id, source, title, category, kb_scope, text, text_format,"
        " content_hash, metadata, chunk_count, state, updated_at) VALUES"
        " ('a', 'ops', '磁盘', 'linux', 'default', '先看监控 🚀', 'markdown', 'aa', '{}', 3,"
        " 'indexed', '2026-01-03'),"
        " ('b', 'ops', 'B', '', 'default', 'text b', 'plain', 'bb', '{}', 2, 'writing',"
        " '2026-01-04')",
        "INSERT INTO catalogues (source, text) VALUES ('ops', '# one'), ('api', '# two')",
        "INSERT INTO traces (lookup_id, created_at, trace) VALUES ('lk_1', '2026', '{\"n\"\\: 1}')",
    )


def test_the_last_script_is_the_version_of_the_tables(connection):
    scripts = ScriptDirectory.from_config(configuration(connection))

    assert scripts.get_heads() == [schema.HEAD]
    assert [script.revision for script in scripts.walk_revisions()] == ["0003", "0002", "0001"]


def test_the_scripts_make_the_same_tables_as_a_new_ledger(connection):
    upgrade(connection)
    connection.commit()

    context = MigrationContext.configure(connection)
    assert compare_metadata(context, METADATA) == []
    described = inspect(connection)
    indexes = {
        table: {index["name"] for index in described.get_indexes(table)} & NAMES
        for table in METADATA.tables
    }
    assert {table: names for table, names in indexes.items() if names} == INDEXES


def test_a_new_ledger_has_the_tables_and_the_last_version(connection, url):
    SqlLedger(url).close()

    context = MigrationContext.configure(connection)
    assert context.get_current_revision() == schema.HEAD
    assert compare_metadata(context, METADATA) == []


def test_a_ledger_from_before_there_were_versions_is_brought_up_to_date(first, url):
    fill(first)

    ledger = SqlLedger(url)

    active = ledger.active_generation()
    assert (active.name, active.collection, active.state) == ("g1", "biz_g1", "active")
    assert active.embedder == EMBEDDER
    assert (active.chunking, active.embedding, active.report, active.forced) == ({}, {}, {}, False)
    assert active.activated_at == active.created_at == "2026-01-02"
    assert [(one.name, one.state) for one in ledger.generations()] == [
        ("g0", "previous"),
        ("g1", "active"),
    ]
    assert ledger.document_text("a") == Document(
        "a", "ops", "磁盘", "linux", "default", "先看监控 🚀", "markdown", "aa"
    )
    assert ledger.document("a").chunk_count == 3
    assert ledger.document("b").state == "writing"
    assert ledger.marks(["a", "b"]) == {"a": (), "b": ()}
    assert ledger.versions("a") == (DocumentVersion("a", "g1", "aa", (), since="2026-01-03"),)
    assert ledger.versions("b") == ()
    assert ledger.catalogues() == {"default": {"api": "# two", "ops": "# one"}}
    assert ledger.trace("lk_1") == {"n": 1}

    # and it goes on like any other
    write(ledger, *IN_ORDER[4:])
    assert ids(ledger.documents()) == IN_ORDER[4:]
    assert ledger.marks(["a"]) == {"a": marks(1)}
    assert [version.ended_by for version in ledger.versions("a")] == ["", "replaced"]
    assert MigrationContext.configure(first).get_current_revision() == schema.HEAD
    ledger.close()


def test_a_version_that_is_stored_is_gone_on_from(connection, url):
    command.upgrade(configuration(connection), "0001")
    fill(connection)

    ledger = SqlLedger(url)

    assert ledger.active_generation().name == "g1"
    ledger.close()


def test_versions_get_the_scope_of_their_document(connection, url):
    command.upgrade(configuration(connection), "0001")
    fill(connection)
    command.upgrade(configuration(connection), "0002")
    run(
        connection,
        "INSERT INTO versions (doc_id, generation, content_hash, since, until, ended_by, marks)"
        " SELECT doc_id, 'g0', hash, '1', '2', 'deleted', marks FROM versions,"
        " (SELECT 'aa' AS hash UNION SELECT 'old') hashes WHERE doc_id = 'a'",
        "UPDATE documents SET kb_scope = 'other'",
    )

    ledger = SqlLedger(url)

    found = ledger.versions("a", kb_scope="other")
    assert {(version.generation, version.content_hash) for version in found} == {
        ("g0", "aa"),
        ("g1", "aa"),
    }
    assert ledger.versions("a", kb_scope="default") == ()
    assert len(ledger.versions("a")) == 3
    ledger.close()


def test_several_can_migrate_at_once(first, url):
    fill(first)
    start = threading.Barrier(4)

    def open_it(_):
        start.wait()
        ledger = SqlLedger(url)
        found = ids(ledger.documents())
        ledger.close()
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(open_it, range(4))) == [("a", "b")] * 4


def test_a_migration_that_fails_leaves_what_was_there(first, url):
    fill(first)
    run(first, "CREATE TABLE keys (id INTEGER)")  # in the way of the last step

    for _ in range(2):
        message, _ = failure(SqlLedger, url)
        assert "keys" in message

    assert first.execute(text("SELECT text FROM documents ORDER BY doc_id")).scalars().all() == [
        "先看监控 🚀",
        "text b",
    ]
    first.rollback()
    run(first, "DROP TABLE keys")
    ledger = SqlLedger(url)
    assert ids(ledger.documents()) == ("a", "b")
    ledger.close()


def test_a_newer_ledger_is_refused_and_left_alone(connection, url):
    SqlLedger(url).close()
    run(connection, "UPDATE alembic_version SET version_num = '0004'")

    with pytest.raises(ConfigurationError) as error:
        SqlLedger(url)

    assert "was written by a newer Knowport: its version is 0004" in error.value.message
    assert "Upgrade Knowport" in error.value.remedy
    assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0004"


def test_opening_a_ledger_of_today_imports_no_alembic(sqlite_url):
    """It takes as long as the rest of a start; that holds for making a new ledger too."""
    code = (
        "import sys; from knowport.adapters.ledger import SqlLedger\n"
        "SqlLedger(sys.argv[1]).documents()\n"
        "print('alembic' in sys.modules)"
    )
    for _ in range(2):
        told = subprocess.run(
            [sys.executable, "-c", code, sqlite_url], capture_output=True, text=True, check=True
        )
        assert told.stdout == "False\n"


def test_a_generation_is_saved_in_a_migrated_ledger(first, url):
    ledger = SqlLedger(url)
    ledger.save_generation(GENERATION)

    assert ledger.active_generation() == GENERATION
    ledger.close()
