"""Generations, the switch between them, and the history of documents."""

from dataclasses import replace

import pytest

import knowport.adapters.ledger.generations
import knowport.adapters.ledger.history
from knowport.errors import GenerationChanged, LedgerError, RebuildError
from knowport.model import BuiltDocument, DocumentVersion, EmbedderIdentity

from .ledgers import DOCUMENT, GENERATION, failure, ids, marks, names, planned, write

SECOND = replace(
    GENERATION, name="g2", collection="biz_g2", state="verified", activated_at="", forced=False
)
NOON, ONE, TWO = (f"2026-12-01T{hour}:00:00+00:00" for hour in (12, 13, 14))


def build(ledger, generation, doc_id, chunks=1, content=0):
    one = BuiltDocument(doc_id, f"{content:064x}", marks(chunks, content))
    ledger.store_built(generation, [one])


def history(ledger, doc_id):
    """Generation, content and end of each version, newest first."""
    return [
        (version.generation, int(version.content_hash, 16), version.ended_by)
        for version in ledger.versions(doc_id)
    ]


@pytest.fixture
def two(ledger):
    """An active g1 that holds a and b, and a g2 beside it."""
    ledger.save_generation(GENERATION)
    ledger.save_generation(SECOND)
    write(ledger, "a", chunks=2, content=1)
    write(ledger, "b", chunks=3, content=2)
    return ledger


# -- generations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "generation",
    [GENERATION, replace(GENERATION, lexical=False, analyzer={}, proved_on="", report={})],
)
def test_a_generation_comes_back_as_it_was(opened, generation):
    opened().save_generation(generation)

    found = opened().active_generation()

    assert found == generation
    assert isinstance(found.embedder, EmbedderIdentity)
    assert opened().generations() == (generation,)


def test_saving_a_generation_changes_no_other(ledger):
    ledger.save_generation(GENERATION)
    ledger.save_generation(replace(SECOND, state="building"))
    assert ledger.active_generation() == GENERATION

    verified = replace(SECOND, report={"chunks": 5})
    ledger.save_generation(verified)

    assert ledger.generations() == (GENERATION, verified)

    proved = replace(GENERATION, proved_on="2.6.0")
    ledger.save_generation(proved)
    assert ledger.active_generation() == proved
    assert ledger.generations() == (proved, verified)


def test_there_are_never_two_active_generations(ledger):
    ledger.save_generation(GENERATION)

    failure(ledger.save_generation, replace(SECOND, state="active"))

    assert ledger.generations() == (GENERATION,)


def test_generations_are_in_order_of_creation(ledger):
    late = "2026-12-01T00:00:00+00:00"
    for name in ("g10", "g9", "g11"):
        ledger.save_generation(replace(SECOND, name=name, created_at=late))
    ledger.save_generation(replace(SECOND, name="x1"))

    assert [one.name for one in ledger.generations()] == ["x1", "g9", "g10", "g11"]


# -- what is built ----------------------------------------------------------------------------


def test_what_is_built_is_kept_by_generation_and_written_over(ledger):
    build(ledger, "g2", "a", content=1)
    build(ledger, "g2", "b", content=2)
    build(ledger, "g3", "a", content=3)
    build(ledger, "g2", "a", content=4)
    ledger.store_built("g2", [])

    assert ledger.built("g2") == {"a": f"{4:064x}", "b": f"{2:064x}"}
    assert ledger.built("g3") == {"a": f"{3:064x}"}
    assert ledger.built("g4") == {}

    ledger.drop_built("g2", ["a", "unknown"])
    ledger.drop_built("g2", [])

    assert ledger.built("g2") == {"b": f"{2:064x}"}
    assert ledger.built("g3") == {"a": f"{3:064x}"}


def test_many_documents_at_once(two):
    many = [f"d{number:04}" for number in range(1_201)]
    two.begin_writes([planned(replace(DOCUMENT, doc_id=name), 2) for name in many])
    two.commit_writes(many, generation="g1")
    two.store_built("g2", [BuiltDocument(name, "0" * 64, marks(3)) for name in many])

    assert len(two.infos(many)) == len(two.marks(many)) == len(two.built("g2")) == 1_201
    assert history(two, many[-1]) == [("g1", 0, "")]

    two.reopen_writes(many)
    assert ids(two.unfinished()) == tuple(many)
    two.drop_built("g2", many)
    assert two.built("g2") == {}


# -- the switch -------------------------------------------------------------------------------


def test_the_first_generation_of_an_empty_ledger(ledger):
    ledger.save_generation(replace(GENERATION, state="building", activated_at="", forced=False))
    assert ledger.active_generation() is None

    ledger.activate("g1", activated_at=NOON, forced=False)

    assert ledger.active_generation() == replace(GENERATION, activated_at=NOON, forced=False)


def test_the_switch_takes_all_that_hangs_on_it(two):
    build(two, "g2", "a", chunks=5, content=1)
    build(two, "g2", "b", chunks=1, content=2)
    before = two.document("a")

    two.activate("g2", activated_at=NOON, forced=True)

    assert two.active_generation() == replace(
        SECOND, state="active", activated_at=NOON, forced=True
    )
    assert names(two.generations()) == [("g1", "previous"), ("g2", "active")]
    assert two.document("a") == replace(before, chunk_count=5)
    assert two.document("b").chunk_count == 1
    assert two.marks(["a", "b"]) == {"a": marks(5, 1), "b": marks(1, 2)}
    assert two.built("g1") == {"a": f"{1:064x}", "b": f"{2:064x}"}
    two.tidy_up()
    assert two.built("g2") == {}
    new, old = two.versions("a")
    assert new == DocumentVersion("a", "g2", f"{1:064x}", marks(5, 1), since=NOON)
    assert old == DocumentVersion(
        "a", "g1", f"{1:064x}", marks(2, 1), old.since, until=NOON, ended_by="replaced"
    )


def test_what_a_switch_leaves_behind_is_removed_in_portions_or_by_the_next_one(two, monkeypatch):
    """Killed before it is tidied up, the next switch does not trip over it."""
    monkeypatch.setattr(knowport.adapters.ledger.generations, "_PORTION", 1)
    build(two, "g2", "a", content=1)
    build(two, "g2", "b", content=2)
    two.activate("g2", activated_at=NOON, forced=False)
    two.activate("g1", activated_at=ONE, forced=False)
    assert set(two.built("g1")) == set(two.built("g2")) == {"a", "b"}

    two.tidy_up()
    two.tidy_up()

    assert (two.built("g1"), set(two.built("g2"))) == ({}, {"a", "b"})
    assert two.active_generation().name == "g1"


def test_many_switches_leave_as_many_versions_as_are_kept(two, monkeypatch):
    monkeypatch.setattr(knowport.adapters.ledger.history, "KEPT", 3)
    build(two, "g2", "a", content=1)
    build(two, "g2", "b", content=2)
    for number in range(6):
        two.activate(f"g{2 - number % 2}", activated_at=f"2026-12-01T12:00:0{number}", forced=False)
        two.tidy_up()
    assert [name for name, _, _ in history(two, "a")] == ["g1", "g2", "g1"]


def test_what_was_forced_once_stays_so(two):
    """Also after a rollback and back."""
    build(two, "g2", "a", content=1)
    build(two, "g2", "b", content=2)
    for name, forced in (("g2", True), ("g1", False), ("g2", False)):
        two.activate(name, activated_at=NOON, forced=forced)
    assert [one.forced for one in two.generations()] == [GENERATION.forced, True]


def test_a_writer_that_lost_its_lock_does_not_write_into_another_generation(two):
    """As by a session of PostgreSQL that was cut off in the middle of a write."""
    build(two, "g2", "a", content=1)
    build(two, "g2", "b", content=2)
    two.activate("g2", activated_at=NOON, forced=False)
    two.begin_writes([planned(replace(DOCUMENT, doc_id="late"), 2)])

    with pytest.raises(GenerationChanged):
        two.commit_writes(["late"], generation="g1")

    assert two.document("late").state == "writing"
    assert two.versions("late") == ()
    two.commit_writes(["late"], generation="g2")
    assert two.document("late").state == "indexed"


def test_what_is_not_built_as_it_stands(two):
    """g2 holds a as it was before, b as it is, half of c, which is being deleted, all of d, which
    is too, and x, which is gone."""
    for name in ("c", "d"):
        write(two, name, content=4)
        two.begin_delete(name)
    for name, content in (("a", 9), ("b", 2), ("d", 4), ("x", 5)):
        build(two, "g2", name, content=content)
    two.store_built("g2", [BuiltDocument("c", "", ())])
    two.begin_writes([planned(replace(DOCUMENT, doc_id="e"), 1)])

    assert two.unbuilt("g2") == (["a", "e"], ["c", "x"])
    assert two.unbuilt("g3") == (["a", "b", "e"], [])


def test_a_document_on_its_way_out_that_was_not_built_has_no_chunks_after_the_switch(two):
    build(two, "g2", "a", content=1)
    two.begin_delete("b")
    two.activate("g2", activated_at=NOON, forced=False)

    assert (two.document("b").state, two.document("b").chunk_count) == ("deleting", 0)
    assert two.marks(["b"]) == {"b": ()}
    assert two.unbuilt("g1") == ([], ["b"]), "of which the old one may hold a part"


def test_back_again_after_catching_up(two):
    build(two, "g2", "a", chunks=5, content=1)
    build(two, "g2", "b", chunks=1, content=2)
    two.activate("g2", activated_at=NOON, forced=False)
    write(two, "a", chunks=4, content=7, generation="g2")
    write(two, "c", chunks=4, content=3, generation="g2")
    two.begin_delete("b")
    two.commit_delete("b")
    two.tidy_up()

    with pytest.raises(RebuildError) as error:
        two.activate("g1", activated_at=ONE, forced=False)
    assert error.value.message == (
        "Generation g1 does not hold what the ledger knows of 3 documents: a, b, c."
    )
    assert two.built("g1") == {"a": f"{1:064x}", "b": f"{2:064x}"}
    assert two.active_generation().name == "g2"

    build(two, "g1", "a", chunks=2, content=7)
    build(two, "g1", "c", chunks=1, content=3)
    two.drop_built("g1", ["b"])
    two.activate("g1", activated_at=ONE, forced=False)

    assert names(two.generations()) == [("g1", "active"), ("g2", "previous")]
    assert two.built("g2") == {"a": f"{7:064x}", "c": f"{3:064x}"}
    assert two.marks(["a", "b", "c"]) == {"a": marks(2, 7), "c": marks(1, 3)}
    assert history(two, "a") == [
        ("g1", 7, ""),
        ("g2", 7, "replaced"),
        ("g2", 1, "replaced"),
        ("g1", 1, "replaced"),
    ]
    assert history(two, "b") == [("g2", 2, "deleted"), ("g1", 2, "replaced")]


def test_a_third_generation_leaves_the_first_as_it_is(two):
    for doc_id, content in (("a", 1), ("b", 2)):
        build(two, "g2", doc_id, content=content)
        build(two, "g3", doc_id, content=content)
    two.save_generation(replace(SECOND, name="g3"))

    two.activate("g2", activated_at=NOON, forced=False)
    two.activate("g3", activated_at=ONE, forced=False)

    assert names(two.generations()) == [("g1", "previous"), ("g2", "previous"), ("g3", "active")]
    assert two.built("g1") == two.built("g2") == {"a": f"{1:064x}", "b": f"{2:064x}"}


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda ledger: ledger.drop_built("g2", ["a"]), "of 1 document: a."),
        (lambda ledger: build(ledger, "g2", "b", content=9), "of 1 document: b."),
        (lambda ledger: build(ledger, "g2", "gone"), "of 1 document: gone."),
        (
            lambda ledger: write(ledger, *(f"n{number}" for number in range(7))),
            "of 7 documents: n0, n1, n2, n3, n4, ...",
        ),
    ],
)
def test_a_generation_that_differs_is_refused_and_nothing_changes(two, spoil, named):
    build(two, "g2", "a", content=1)
    build(two, "g2", "b", content=2)
    spoil(two)
    before = (two.generations(), two.documents(), two.built("g2"), two.versions("a"))

    with pytest.raises(RebuildError) as error:
        two.activate("g2", activated_at=NOON, forced=True)

    assert error.value.message == f"Generation g2 does not hold what the ledger knows {named}"
    assert error.value.remedy
    assert (two.generations(), two.documents(), two.built("g2"), two.versions("a")) == before
    assert two.built("g1") == {}


def test_only_what_is_there_can_be_activated(two):
    two.save_generation(replace(SECOND, name="g3", state="dropping"))

    for name in ("g3", "g4"):
        with pytest.raises(RebuildError, match=f"no generation {name} to activate"):
            two.activate(name, activated_at=NOON, forced=True)

    assert two.active_generation() == GENERATION


def test_activating_the_active_generation_changes_nothing(two):
    two.activate("g1", activated_at=NOON, forced=False)

    assert two.active_generation() == GENERATION
    assert two.built("g1") == {}
    assert history(two, "a") == [("g1", 1, "")]


def test_interrupted_documents_in_a_switch(two):
    """g2 holds b whole, which the old generation does not; c is on its way out."""
    write(two, "c", content=3)
    build(two, "g2", "a", content=1)
    build(two, "g2", "b", content=5)
    two.begin_writes([planned(replace(DOCUMENT, doc_id="b", content_hash=f"{5:064x}"), 2, 5)])
    two.begin_delete("c")

    two.activate("g2", activated_at=NOON, forced=False)

    assert two.document("b").state == "indexed"
    assert two.document("c").state == "deleting"
    assert two.built("g1") == {"a": f"{1:064x}", "b": "", "c": ""}
    assert history(two, "b") == [("g2", 5, ""), ("g1", 2, "replaced")]

    two.commit_delete("c")
    assert history(two, "c") == [("g1", 3, "deleted")]


def test_dropping_a_generation_forgets_what_it_holds(two):
    build(two, "g2", "a")
    build(two, "g3", "a")

    two.drop_generation("g2")
    two.drop_generation("unknown")

    assert names(two.generations()) == [("g1", "active")]
    assert two.built("g2") == {}
    assert two.built("g3") == {"a": "0" * 64}


def test_the_active_generation_cannot_be_dropped(two):
    with pytest.raises(RebuildError, match="g1 is the active one"):
        two.drop_generation("g1")

    assert two.active_generation() == GENERATION


def test_a_switch_that_fails_on_the_way_changes_nothing(two):
    build(two, "g2", "a", content=1)
    build(two, "g2", "b", content=2)
    before = (two.generations(), two.documents(), two.built("g2"), two.built("g1"))

    with pytest.raises(LedgerError):
        two.activate("g2", activated_at=None, forced=False)

    assert (two.generations(), two.documents(), two.built("g2"), two.built("g1")) == before


# -- history ----------------------------------------------------------------------------------


def test_each_version_of_a_document_is_remembered(ledger):
    write(ledger, "a", chunks=2, content=1)
    write(ledger, "a", chunks=3, content=2)

    new, old = ledger.versions("a")

    assert new == DocumentVersion("a", "g1", f"{2:064x}", marks(3, 2), since=new.since)
    assert old == DocumentVersion(
        "a", "g1", f"{1:064x}", marks(2, 1), old.since, until=new.since, ended_by="replaced"
    )
    assert ledger.document("a").updated_at == new.since
    assert ledger.versions("b") == ()


def test_a_version_begins_when_it_is_committed(ledger):
    write(ledger, "a", content=1)

    ledger.begin_writes([planned(replace(DOCUMENT, doc_id="a", content_hash=f"{2:064x}"), 1, 2)])

    assert history(ledger, "a") == [("g1", 1, "")]
    assert ledger.marks(["a"]) == {"a": marks(1, 2)}


def test_the_same_written_again_is_no_new_version(ledger):
    write(ledger, "a", content=1)
    write(ledger, "a", content=1)
    ledger.reopen_writes(["a"])
    ledger.commit_writes(["a"], generation="g1")
    assert history(ledger, "a") == [("g1", 1, "")]

    # the same text cut in another way is one, and so is the same in another generation
    write(ledger, "a", chunks=2, content=1)
    write(ledger, "a", chunks=2, content=1, generation="g2")
    assert history(ledger, "a") == [("g2", 1, ""), ("g1", 1, "replaced"), ("g1", 1, "replaced")]


def test_the_history_of_a_deleted_document_stays_and_goes_on(ledger):
    write(ledger, "a", content=1)
    ledger.begin_delete("a")
    assert history(ledger, "a") == [("g1", 1, "")]

    ledger.commit_delete("a")
    ledger.commit_delete("a")
    assert history(ledger, "a") == [("g1", 1, "deleted")]
    assert ledger.versions("a")[0].until

    write(ledger, "a", content=1)
    assert history(ledger, "a") == [("g1", 1, ""), ("g1", 1, "deleted")]


def test_the_last_fifty_versions_are_kept(ledger):
    write(ledger, "b", content=1)
    for number in range(53):
        write(ledger, "a", content=number)

    assert [content for _, content, _ in history(ledger, "a")] == list(range(52, 2, -1))
    assert history(ledger, "b") == [("g1", 1, "")]


def test_a_hash_of_a_file_changes_nothing_else(ledger):
    write(ledger, "a", "b")
    before = ledger.document("a")

    ledger.touch_files({"a": "1" * 64, "unknown": "2" * 64})
    ledger.touch_files({})

    assert ledger.document("a") == replace(before, file_hash="1" * 64)
    assert ledger.document_text("a").file_hash == "1" * 64
    assert ledger.document("b").file_hash == DOCUMENT.file_hash
    assert ids(ledger.documents()) == ("a", "b")
    assert history(ledger, "a") == [("g1", 0, "")]


def test_marks_of_documents(ledger):
    write(ledger, "a", chunks=3)
    write(ledger, "b", chunks=0)

    assert ledger.marks(["a", "b", "unknown"]) == {"a": marks(3), "b": ()}
    assert ledger.marks([]) == {}


def test_the_history_in_one_scope(two):
    two.begin_delete("a")
    two.commit_delete("a")
    write(two, "a", chunks=1, content=9, kb_scope="other")

    def contents(**scope):
        found = two.versions("a", **scope)
        return [(int(version.content_hash, 16), version.ended_by) for version in found]

    assert contents() == [(9, ""), (1, "deleted")]
    assert contents(kb_scope="other") == [(9, "")]
    assert contents(kb_scope="default") == [(1, "deleted")]
    assert contents(kb_scope="") == []
    build(two, "g2", "a", chunks=5, content=9)
    build(two, "g2", "b", chunks=3, content=2)
    two.activate("g2", activated_at=NOON, forced=False)
    assert contents(kb_scope="other") == [(9, ""), (9, "replaced")]
    assert contents(kb_scope="default") == [(1, "deleted")]
