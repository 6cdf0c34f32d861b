"""What a generation that is not active holds: counts and marks."""

from dataclasses import replace

import pytest

from knowport.model import BuiltDocument

from .ledgers import GENERATION, marks, write

SECOND = replace(GENERATION, name="g2", collection="biz_g2", state="verified", forced=False)
LATER = "2026-12-01T12:00:00+00:00"


@pytest.fixture
def built(ledger):
    """A g2 beside the active g1, with three documents; a g3 that holds one of the same ids."""
    for generation in (GENERATION, SECOND, replace(SECOND, name="g3", collection="biz_g3")):
        ledger.save_generation(generation)
    ledger.store_built(
        "g2",
        [
            BuiltDocument("a", f"{1:064x}", marks(2, 1)),
            BuiltDocument("b", f"{2:064x}", marks(3, 2)),
            BuiltDocument("half", "", ()),
        ],
    )
    ledger.store_built("g3", [BuiltDocument("a", f"{3:064x}", marks(7, 3))])
    return ledger


def test_marks_by_document(built):
    assert built.built_marks("g2", ["b", "half", "never"]) == {"b": marks(3, 2), "half": ()}
    assert built.built_marks("g3", ["a", "b"]) == {"a": marks(7, 3)}
    assert built.built_marks("g2", []) == {}


def test_marks_of_more_documents_than_a_statement_can_name(built):
    ids = [f"d{number:05}" for number in range(3_000)]
    built.store_built("g2", [BuiltDocument(name, "0" * 64, marks(1)) for name in ids])
    assert list(built.built_marks("g2", ids)) == ids
    assert built.built_chunks("g2") == 3_005


def test_chunks_of_all_documents(built):
    assert [built.built_chunks(name) for name in ("g1", "g2", "g3", "never")] == [0, 5, 7, 0]
    built.drop_built("g2", ["a"])
    assert built.built_chunks("g2") == 3


def test_what_was_active_is_counted_by_its_documents(built):
    """Also where an older Knowport did not remember the chunks themselves."""
    write(built, "a", chunks=2, content=1)
    write(built, "b", chunks=3, content=2)
    built.drop_built("g2", ["half"])
    built.activate("g2", activated_at=LATER, forced=False)
    built.tidy_up()
    assert built.built_chunks("g1") == 5
    assert built.built_marks("g1", ["a"]) == {"a": marks(2, 1)}
    assert built.built_chunks("g2") == 0, "it is the active one"
