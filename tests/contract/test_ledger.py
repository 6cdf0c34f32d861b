"""What every ledger must do, over SQLite and over a real PostgreSQL: documents, vectors, traces."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from knowport.adapters.ledger import traces
from knowport.model import ChunkMark, Document, DocumentInfo, PlannedWrite

from .ledgers import (
    DOCUMENT,
    EMBEDDER,
    GENERATION,
    IN_ORDER,
    failure,
    ids,
    marks,
    planned,
    write,
)


def vector(*values):
    return np.array(values, dtype=np.float32)


# -- documents ------------------------------------------------------------------------------


def test_an_empty_ledger(ledger):
    assert ledger.active_generation() is None
    assert ledger.document("ops/disk.md") is None
    assert ledger.document_text("ops/disk.md") is None
    assert ledger.documents() == ledger.unfinished() == ledger.categories("default") == ()


def test_a_document_is_writing_until_it_is_committed(ledger):
    ledger.begin_writes([planned(DOCUMENT, 7)])

    begun = ledger.document("ops/disk.md")
    assert begun == DocumentInfo(
        doc_id="ops/disk.md",
        source="ops",
        title="磁盘 🚀",
        category="linux",
        kb_scope="default",
        content_hash="0" * 64,
        chunk_count=7,
        state="writing",
        updated_at=begun.updated_at,
        metadata={"owner": "sre"},
        file_hash="f" * 64,
    )
    assert ledger.unfinished() == ledger.documents() == (begun,)
    assert ledger.document_text("ops/disk.md") == DOCUMENT

    ledger.commit_writes(["ops/disk.md"], generation="g1")

    done = ledger.document("ops/disk.md")
    assert done == replace(begun, state="indexed", updated_at=done.updated_at)
    assert ledger.unfinished() == ()
    assert ledger.documents() == (done,)
    assert ledger.document_text("ops/disk.md") == DOCUMENT


def test_the_time_of_a_change_is_utc(ledger):
    write(ledger, "a")

    changed = datetime.fromisoformat(ledger.document("a").updated_at)

    assert changed.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - changed) < timedelta(minutes=1)


def test_a_new_version_takes_the_place_of_the_old_when_it_is_begun(ledger):
    write(ledger, "a", "ops/disk.md")
    newer = Document(
        "ops/disk.md", "wiki", "New", "", "other", "New text", "plain", "f" * 64, {"k": [1]}
    )

    ledger.begin_writes([planned(newer, 2)])

    info = ledger.document("ops/disk.md")
    assert (info.state, info.chunk_count, info.kb_scope) == ("writing", 2, "other")
    assert ledger.document_text("ops/disk.md") == newer
    assert ids(ledger.unfinished()) == ("ops/disk.md",)
    assert ids(ledger.documents()) == ("a", "ops/disk.md")
    assert ledger.document("a").state == "indexed"


def test_a_document_is_deleting_until_it_is_gone(ledger):
    write(ledger, "a", "b")

    ledger.begin_delete("a")

    assert ledger.document("a").state == "deleting"
    assert ledger.document_text("a") is not None
    assert ids(ledger.unfinished()) == ("a",)
    assert ids(ledger.documents()) == ("a", "b")

    ledger.commit_delete("a")

    assert ledger.document("a") is ledger.document_text("a") is None
    assert ledger.unfinished() == ()
    assert ids(ledger.documents()) == ("b",)


def test_what_is_being_deleted_is_not_written_again(ledger):
    write(ledger, "a", "b")
    ledger.begin_delete("a")

    ledger.reopen_writes(["a", "b", "none"])

    assert {info.doc_id: info.state for info in ledger.documents()} == {
        "a": "deleting",
        "b": "writing",
    }


def test_what_is_being_deleted_can_be_written_again(ledger):
    write(ledger, "a")
    ledger.begin_delete("a")

    write(ledger, "a")

    assert ledger.document("a").state == "indexed"


def test_changing_the_state_of_an_unknown_document_makes_none(ledger):
    for change in (
        lambda doc_id: ledger.commit_writes([doc_id], generation="g1"),
        ledger.begin_delete,
        ledger.commit_delete,
    ):
        change("gone")

    assert ledger.documents() == ()


@pytest.mark.parametrize("doc_id", ["nul\0", "\ud835", ""])
def test_an_id_that_cannot_be_stored_is_unknown(ledger, doc_id):
    assert ledger.document(doc_id) is ledger.document_text(doc_id) is None
    assert ledger.versions(doc_id) == ()


def test_documents_are_in_order_of_id(ledger):
    for doc_id in reversed(IN_ORDER):
        ledger.begin_writes([planned(replace(DOCUMENT, doc_id=doc_id), 1)])

    assert ids(ledger.documents()) == ids(ledger.unfinished()) == IN_ORDER
    assert ids(ledger.documents(kb_scope="default", category="linux")) == IN_ORDER


def test_documents_come_by_pages_in_order_of_id(ledger):
    for number, doc_id in enumerate(reversed(IN_ORDER)):
        write(ledger, doc_id, category="even" if number % 2 == 0 else "odd")
    write(ledger, "a0", kb_scope="other")

    def pages(category, limit):
        after, found = "", []
        while page := ledger.documents_page(
            kb_scope="default", category=category, after=after, limit=limit
        ):
            assert page == tuple(ledger.document(info.doc_id) for info in page)
            found.append(ids(page))
            after = page[-1].doc_id
        return found

    assert pages(None, 5) == [IN_ORDER[:5], IN_ORDER[5:10], IN_ORDER[10:]]
    assert pages(None, 100) == [IN_ORDER]
    assert pages("odd", 4) == [IN_ORDER[0:8:2], IN_ORDER[8::2]]
    assert pages("none", 4) == []
    assert ledger.documents_page(kb_scope="third", category=None, after="", limit=9) == ()
    # also after an id that is not there
    (next_one,) = ledger.documents_page(kb_scope="default", category=None, after="aa", limit=1)
    assert next_one.doc_id == "ab"


def test_ids_that_look_alike_are_different_documents(ledger):
    alike = ("UPPER", "ops_01", "opsX01", "upper", "upper ", "ÅB", "åb")

    write(ledger, *alike)

    assert len(ledger.documents()) == len(alike)
    assert all(ledger.document(doc_id).doc_id == doc_id for doc_id in alike)


def test_documents_are_filtered_by_scope_and_category(ledger):
    write(ledger, "a", kb_scope="one", category="x")
    write(ledger, "b", kb_scope="one", category="")
    write(ledger, "c", kb_scope="two", category="x")

    assert ids(ledger.documents()) == ("a", "b", "c")
    assert ids(ledger.documents(kb_scope="one")) == ("a", "b")
    assert ids(ledger.documents(category="x")) == ("a", "c")
    assert ids(ledger.documents(category="")) == ("b",)
    assert ids(ledger.documents(kb_scope="two", category="x")) == ("c",)
    assert ledger.documents(kb_scope="three") == ()


@pytest.mark.parametrize("value", ["ops_01", "100%", "OPS_01", 'x" or 1=1 --', "夜班\\", "'"])
def test_filters_are_literal(ledger, value):
    write(ledger, "other", kb_scope="opsX01", category="opsX01")
    write(ledger, "wanted", kb_scope=value, category=value)

    assert ids(ledger.documents(kb_scope=value)) == ("wanted",)
    assert ids(ledger.documents(category=value)) == ("wanted",)
    assert ledger.categories(value) == (value,)


def test_categories_are_those_of_a_scope_once_each_and_sorted(ledger):
    for number, category in enumerate([*reversed(IN_ORDER), "a", "", "b"]):
        write(ledger, f"d{number}", category=category)
    write(ledger, "elsewhere", kb_scope="other", category="there")

    assert ledger.categories("default") == IN_ORDER
    assert ledger.categories("other") == ("there",)
    assert ledger.categories("third") == ()


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"中": ["文", None, True, {"deep": {"er": []}}], "n": -1.5, "big": 2**62, "": ""},
        {"quote": "'\"\\", "line": "a\nb", "emoji": "👨‍👩‍👧‍👦"},
    ],
)
def test_metadata_comes_back_as_it_was(ledger, metadata):
    write(ledger, "a", metadata=metadata)

    assert ledger.document("a").metadata == ledger.document_text("a").metadata == metadata


def test_the_longest_values_fit(ledger):
    longest = replace(
        DOCUMENT,
        doc_id="x" * 400,
        title="长" * 5_000,
        category="c" * 256,
        kb_scope="s" * 256,
        text="备份🚀\n" * 500_000,
    )

    last = ChunkMark("f" * 64, 2**32 - 2, 2**32 - 1)

    ledger.begin_writes([PlannedWrite(longest, [*marks(9_999), last])])

    assert ledger.document_text(longest.doc_id) == longest
    assert ledger.document(longest.doc_id).chunk_count == 10_000
    assert ledger.marks([longest.doc_id]) == {longest.doc_id: (*marks(9_999), last)}


# -- vectors --------------------------------------------------------------------------------


def test_vectors_come_back_bit_for_bit(ledger):
    tiny = np.finfo(np.float32)
    stored = {
        "a" * 64: vector(0.1, -0.0, 1 / 3, 1e-45),
        "b" * 64: vector(tiny.max, tiny.min, tiny.tiny, tiny.eps),
        "c" * 64: vector(1, 2, 3, 4),
    }

    ledger.store_vectors(EMBEDDER, stored)
    found = ledger.cached_vectors(EMBEDDER, list(stored))

    assert found.keys() == stored.keys()
    for name, wanted in stored.items():
        assert found[name].dtype == np.float32
        assert found[name].tobytes() == wanted.tobytes()
        found[name][0] = 9  # it is the caller's own


def test_rows_of_a_matrix_and_other_byte_orders_are_stored_as_their_values(ledger):
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    stored = {
        "column": matrix[:, 1],
        "double": np.array([1.5, 2.5]),
        "big-endian": np.array([1.5, 2.5], dtype=">f4"),
    }

    ledger.store_vectors(EMBEDDER, stored)

    found = ledger.cached_vectors(EMBEDDER, list(stored))
    assert {name: found[name].tolist() for name in stored} == {
        "column": [1, 4, 7, 10],
        "double": [1.5, 2.5],
        "big-endian": [1.5, 2.5],
    }


def test_unknown_texts_are_absent(ledger):
    ledger.store_vectors(EMBEDDER, {"known": vector(1)})

    assert ledger.cached_vectors(EMBEDDER, ["unknown", "known"]).keys() == {"known"}
    assert ledger.cached_vectors(EMBEDDER, ["unknown"]) == {}
    assert ledger.cached_vectors(EMBEDDER, []) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "other"},
        {"model": "other"},
        {"dimension": 5},
        {"query_prefix": ""},
        {"document_prefix": ""},
        {"query_prefix": "passage: ", "document_prefix": "query: "},
    ],
)
def test_vectors_of_different_embedders_do_not_mix(ledger, change):
    other = replace(EMBEDDER, **change)
    ledger.store_vectors(EMBEDDER, {"x": vector(1)})

    assert ledger.cached_vectors(other, ["x"]) == {}

    ledger.store_vectors(other, {"x": vector(2)})
    assert ledger.cached_vectors(EMBEDDER, ["x"])["x"] == vector(1)
    assert ledger.cached_vectors(other, ["x"])["x"] == vector(2)


def test_many_vectors_at_once(ledger):
    stored = {f"{number:064}": vector(number) for number in range(1_201)}

    ledger.store_vectors(EMBEDDER, stored)
    found = ledger.cached_vectors(EMBEDDER, [*stored, *stored, "unknown"])

    assert {name: int(one[0]) for name, one in found.items()} == {
        name: int(name) for name in stored
    }


def test_a_known_vector_stays_and_new_ones_beside_it_are_stored(ledger):
    ledger.store_vectors(EMBEDDER, {"x": vector(1)})
    ledger.store_vectors(EMBEDDER, {"x": vector(2), "y": vector(3)})
    ledger.store_vectors(EMBEDDER, {})

    found = ledger.cached_vectors(EMBEDDER, ["x", "y"])
    assert (found["x"], found["y"]) == (vector(1), vector(3))


# -- catalogues and traces ------------------------------------------------------------------


def test_each_source_has_one_catalogue_in_a_scope(ledger):
    assert ledger.catalogues() == {}
    for source in reversed(IN_ORDER):
        ledger.store_catalogue(source, f"# {source}", kb_scope="ops")

    assert list(ledger.catalogues()["ops"].items()) == [(name, f"# {name}") for name in IN_ORDER]

    ledger.store_catalogue("a", "# 新 🚀\n", kb_scope="ops")
    ledger.store_catalogue("a", "# other", kb_scope="another")
    ledger.store_catalogue("b", None, kb_scope="ops")
    ledger.store_catalogue("b", None, kb_scope="another")
    ledger.store_catalogue("unknown", None, kb_scope="ops")

    found = ledger.catalogues()
    assert list(found) == ["another", "ops"]
    assert found["another"] == {"a": "# other"}
    assert found["ops"]["a"] == "# 新 🚀\n"
    assert found["ops"].keys() == set(IN_ORDER) - {"b"}


def test_a_trace_comes_back_as_it_was(ledger):
    trace = {"query": "怎么重启 🚀", "candidates": [{"score": 0.123456, "rank": 1}], "n": None}

    ledger.store_trace("lk_1", trace)

    assert ledger.trace("lk_1") == trace
    for unknown in ("lk_2", "", "nul\0", "\ud835", "x" * 500):
        assert ledger.trace(unknown) is None


def test_a_trace_is_never_written_over(ledger):
    ledger.store_trace("lk_1", {"n": 1})

    failure(ledger.store_trace, "lk_1", {"n": 2})

    assert ledger.trace("lk_1") == {"n": 1}


@pytest.fixture
def clock(monkeypatch):
    """Tells the ledger what time it is, in days from now."""

    def set_day(day):
        now = datetime.now(UTC) + timedelta(days=day)
        monkeypatch.setattr(traces, "datetime", type("Clock", (), {"now": lambda _: now}))

    return set_day


def kept(ledger, names):
    return [name for name in names if ledger.trace(name) is not None]


def test_traces_that_are_too_old_or_too_many_are_dropped(ledger, clock):
    names = [f"lk_{day}" for day in range(6)]
    for day, name in enumerate(names):
        clock(day)
        ledger.store_trace(name, {})

    assert ledger.prune_traces(max_age_days=10**7, max_count=6) == 0
    assert kept(ledger, names) == names
    # at the age itself a trace goes
    assert ledger.prune_traces(max_age_days=5, max_count=100) == 1
    assert kept(ledger, names) == names[1:]
    assert ledger.prune_traces(max_age_days=100, max_count=3) == 2
    assert kept(ledger, names) == names[3:]
    # both at once: one is too old, and of the others one is too many
    assert ledger.prune_traces(max_age_days=2, max_count=1) == 2
    assert kept(ledger, names) == names[5:]


def test_of_the_traces_of_one_second_the_newest_stay(ledger):
    names = [f"lk_{number}" for number in (3, 9, 1, 7, 5, 2)]
    for name in names:
        ledger.store_trace(name, {})

    assert ledger.prune_traces(max_age_days=9, max_count=2) == 4
    assert kept(ledger, names) == names[-2:]


def test_catalogues_and_traces_outlive_the_connection(opened):
    ledger = opened()
    ledger.store_catalogue("ops", "# one", kb_scope="default")
    ledger.store_trace("lk_1", {"found": True})
    ledger.close()

    assert opened().catalogues() == {"default": {"ops": "# one"}}
    assert opened().trace("lk_1") == {"found": True}


@pytest.mark.parametrize("limits", [{"max_age_days": 0}, {"max_count": 0}])
def test_a_limit_of_zero_keeps_no_trace(ledger, limits):
    ledger.store_trace("lk_1", {})
    ledger.store_trace("lk_2", {})

    assert ledger.prune_traces(**{"max_age_days": 9, "max_count": 9} | limits) == 2
    assert kept(ledger, ["lk_1", "lk_2"]) == []


# -- several at once ------------------------------------------------------------------------


def test_all_is_there_after_opening_again(opened):
    first = opened()
    first.save_generation(GENERATION)
    first.store_vectors(EMBEDDER, {"x": vector(1)})
    write(first, "a")
    first.begin_writes([planned(replace(DOCUMENT, doc_id="b"), 1)])
    first.close()

    second = opened()

    assert second.active_generation() == GENERATION
    assert second.cached_vectors(EMBEDDER, ["x"])["x"] == vector(1)
    assert ids(second.documents()) == ("a", "b")
    assert ids(second.unfinished()) == ("b",)


def test_each_connection_sees_what_the_other_has_written(opened):
    one, other = opened(), opened()

    one.begin_writes([planned(DOCUMENT, 1)])
    assert other.document(DOCUMENT.doc_id).state == "writing"
    other.commit_writes([DOCUMENT.doc_id], generation="g1")
    assert one.document(DOCUMENT.doc_id).state == "indexed"
    one.begin_delete(DOCUMENT.doc_id)
    one.commit_delete(DOCUMENT.doc_id)
    assert other.documents() == ()


def test_several_threads_and_connections_write_at_once(opened):
    ledgers = [opened(), opened()]

    def work(number):
        ledger = ledgers[number % 2]
        for step in range(8):
            write(ledger, f"d{number}-{step}")
            ledger.store_vectors(EMBEDDER, {"same": vector(1), f"v{number}-{step}": vector(2)})
            ledger.documents()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))

    names = [f"{number}-{step}" for number in range(6) for step in range(8)]
    assert ids(ledgers[0].documents()) == tuple(f"d{name}" for name in names)
    assert ledgers[0].unfinished() == ()
    assert len(ledgers[1].cached_vectors(EMBEDDER, [f"v{name}" for name in names])) == 48


def test_several_can_open_a_new_database_at_once(opened):
    start = threading.Barrier(6)

    def open_it(_):
        start.wait()
        return opened().documents()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(open_it, range(6))) == [()] * 6
