"""What is said of an evidence key that was cited earlier, by exact examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from knowport.core.evidence_map import EvidenceStatus, instant, judge
from knowport.errors import InvalidInput
from knowport.model import ChunkMark, DocumentVersion

DOC = "kb/a#chunk-1.md"  # an id may hold what looks like a key's end


def version(text: str, *chunks: tuple[str, int, int], generation: str = "g1", since: str = "1"):
    marks = tuple(ChunkMark(content, start, end) for content, start, end in chunks)
    return DocumentVersion(DOC, generation, text, marks, since=since)


def ended(of: DocumentVersion, until: str, by: str = "replaced") -> DocumentVersion:
    return replace(of, until=until, ended_by=by)


def asked(number: int, *history: DocumentVersion, **when: Any) -> EvidenceStatus:
    """History oldest first."""
    return judge(f"{DOC}#chunk-{number}", list(reversed(history)), **when)


def said(status: EvidenceStatus) -> tuple[str, list[int]]:
    return str(status.state), [int(key.rpartition("-")[2]) for key in status.to]


def day(number: int) -> str:
    return f"2026-01-0{number}T00:00:00+00:00"


WIDE = version("t", ("a", 0, 100), ("b", 102, 200), ("c", 202, 300))
NARROW = version(
    "t",
    ("a1", 0, 50),
    ("a2", 51, 100),
    ("b", 102, 200),
    ("c", 202, 300),
    generation="g2",
    since="5",
)
MERGED = version("t", ("ab", 0, 200), ("c", 202, 300), generation="g2", since="5")


def test_a_chunk_of_the_only_version() -> None:
    assert said(asked(1, WIDE)) == ("current", [1])
    assert asked(1, WIDE).to == (f"{DOC}#chunk-1",)
    assert said(asked(3, WIDE)) == ("unknown", [])
    assert said(judge("nowhere.md#chunk-0", [])) == ("unknown", [])


def test_split_and_moved_by_a_smaller_cut() -> None:
    history = ended(WIDE, "5"), NARROW
    assert said(asked(0, *history)) == ("split", [0, 1])
    assert said(asked(1, *history)) == ("moved", [2])
    assert said(asked(2, *history)) == ("moved", [3])
    assert said(asked(3, *history)) == ("current", [3]), "there was no such key before"


def test_moved_into_a_larger_chunk() -> None:
    history = ended(WIDE, "5"), MERGED
    assert said(asked(0, *history)) == ("current", [0]), "the chunk of that number holds it all"
    assert said(asked(1, *history)) == ("moved", [0])
    assert said(asked(2, *history)) == ("moved", [1])


def test_after_a_rollback_all_is_as_it_was() -> None:
    back = replace(WIDE, since="9")
    for number in (0, 1, 2):
        status = asked(number, ended(WIDE, "5"), ended(NARROW, "9"), back, generation="g1")
        assert said(status) == ("current", [number])
    # In between it stood for something else.
    status = asked(1, ended(WIDE, "5"), ended(NARROW, "9"), back)
    assert said(status) == ("current", [1])
    assert status.ambiguous
    assert not asked(2, ended(WIDE, "5"), back).ambiguous
    assert said(asked(1, ended(WIDE, "5"), ended(NARROW, "9"), back, generation="g2")) == (
        "moved",
        [0],
    )


def test_the_time_tells_which_meaning_is_asked_for() -> None:
    history = ended(WIDE, "5"), NARROW
    timed = ended(replace(WIDE, since=day(1)), day(5)), replace(NARROW, since=day(5))
    assert said(asked(1, *timed, at=instant(day(3)))) == ("moved", [2])
    assert said(asked(1, *timed, at=instant(day(7)))) == ("current", [1])
    assert said(asked(1, *timed, at=instant("2025-12-31"))) == ("unknown", [])
    assert said(asked(1, *history, generation="g2")) == ("current", [1])
    assert said(asked(1, *history, generation="g9")) == ("unknown", [])
    assert [(m.generation, str(m.state)) for m in asked(1, *history).meanings] == [
        ("g1", "moved"),
        ("g2", "current"),
    ]


@pytest.mark.parametrize(
    ("since", "at", "generations"),
    [
        # A switch is known to the millisecond.
        ("12:00:00.100", "12:00:00.900", ["g2"]),
        ("12:00:00.100", "12:00:00.100001", ["g1", "g2"]),
        ("12:00:00.100", "12:00:00.1", ["g1", "g2"]),
        ("12:00:00.100", "12:00:00.05", ["g1"]),
        ("12:00:00.100", "12:00:00.0999999", ["g1"]),
        ("12:00:00.100", "11:59:59.999", ["g1"]),
        # What is given to the second means all of it, and so with minutes, hours and days.
        ("12:00:00.100", "12:00:00", ["g1", "g2"]),
        ("12:00:00.900", "12:00:00", ["g1", "g2"]),
        ("12:00:00.100", "12:00:01", ["g2"]),
        ("12:00:00.100", "11:59:59", ["g1"]),
        ("12:00:30.100", "12:00", ["g1", "g2"]),
        ("12:00:30.100", "12:01", ["g2"]),
        ("12:30:00.100", "12", ["g1", "g2"]),
        ("12:30:00.100", "13", ["g2"]),
        # Other writes are known to the second.
        ("12:00:00", "12:00:00.000", ["g1", "g2"]),
        ("12:00:00", "12:00:00.999", ["g1", "g2"]),
        ("12:00:00", "12:00:00", ["g1", "g2"]),
        ("12:00:00", "12:00:01.000", ["g2"]),
        ("12:00:00", "11:59:59.999", ["g1"]),
    ],
)
def test_the_second_of_a_switch(since: str, at: str, generations: list[str]) -> None:
    switched = f"2026-01-01T{since}+00:00"
    old, new = ended(replace(WIDE, since=day(1)), switched), replace(MERGED, since=switched)
    for given in (f"2026-01-01T{at}+00:00", f"2026-01-01 {at}Z", f"2026-01-01T{at}"):
        status = asked(1, old, new, at=instant(given))
        assert [meaning.generation for meaning in status.meanings] == generations, given
        assert status.ambiguous == (len(generations) > 1)


@pytest.mark.parametrize(
    ("at", "generations"),
    [
        ("2026-01-01", ["g1", "g2"]),
        ("20260101", ["g1", "g2"]),
        ("2026-01-02", ["g2"]),
        ("2026-W01-4", ["g1", "g2"]),
        ("20260101T115959Z", ["g1"]),
        ("20260101T1200-0500", ["g2"]),
        ("2026-01-01T14:00:00,100+02:00", ["g1", "g2"]),
        ("2026-01-01T14:00+02:00", ["g1", "g2"]),
        ("9999-12-31T23:59:59Z", ["g2"]),
        ("9999-12-31", ["g2"]),
        ("0001-01-01T00:00:00+14:00", []),
    ],
)
def test_other_forms_of_a_time(at: str, generations: list[str]) -> None:
    switched = "2026-01-01T12:00:00.100+00:00"
    history = (
        ended(replace(WIDE, since="2025-01-01T00:00:00+00:00"), switched),
        replace(MERGED, since=switched),
    )
    status = asked(1, *history, at=instant(at))
    assert [meaning.generation for meaning in status.meanings] == generations


@pytest.mark.parametrize("at", ["", "now", "12:00", "2026-13-01"])
def test_what_is_no_time(at: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        instant(at)
    assert caught.value.field == "at"


def test_an_edited_document() -> None:
    edited = version("u", ("x", 0, 10), ("a", 12, 112), ("c", 114, 212), since="5")
    history = ended(WIDE, "5"), edited
    assert said(asked(0, *history)) == ("moved", [1])
    assert said(asked(1, *history)) == ("changed", [])
    assert said(asked(2, *history)) == ("current", [2])


def test_edited_after_it_was_cut_otherwise() -> None:
    edited = version("u", ("a2", 0, 49), ("a1", 51, 101), ("b2", 103, 200), since="9")
    history = ended(WIDE, "5"), ended(NARROW, "9"), edited
    assert said(asked(0, *history)) == ("split", [0, 1])
    assert said(asked(1, *history)) == ("changed", []), "b is gone"
    assert said(asked(2, *history)) == ("changed", [])


def test_edited_and_edited_back() -> None:
    edited = version("u", ("x", 0, 10), since="5")
    back = replace(WIDE, since="9")
    assert said(asked(1, ended(WIDE, "5"), ended(edited, "9"), back)) == ("current", [1])


def test_the_nearest_of_equal_chunks() -> None:
    edited = version("u", ("b", 0, 9), ("x", 10, 19), ("b", 20, 29), ("b", 30, 39), since="5")
    assert said(asked(1, ended(WIDE, "5"), edited)) == ("moved", [0])
    edited = version("u", ("x", 0, 9), ("y", 10, 19), ("z", 20, 29), ("b", 30, 39), since="5")
    assert said(asked(1, ended(WIDE, "5"), edited)) == ("moved", [3])


def test_a_text_that_no_chunk_holds_any_more() -> None:
    new = version("t", ("a", 0, 100), ("c", 202, 300), generation="g2", since="5")
    assert said(asked(1, ended(WIDE, "5"), new)) == ("changed", [])


def test_a_deleted_document_and_one_that_came_back() -> None:
    gone = ended(WIDE, "5", by="deleted")
    assert said(asked(1, gone)) == ("deleted", [])
    assert said(asked(7, gone)) == ("unknown", [])
    again = version("t", ("a", 0, 100), ("b", 102, 200), ("c", 202, 300), since="9")
    assert said(asked(1, gone, again)) == ("current", [1])


def test_chunks_that_an_older_knowport_did_not_remember() -> None:
    """What a key of that time stood for cannot be told, so it is not said to be current."""
    old = version("t")
    status = asked(1, ended(old, "5"), NARROW)
    assert said(status) == ("unknown", [])
    assert status.ambiguous
    assert said(asked(1, ended(old, "5"), NARROW, generation="g2")) == ("current", [1])


@pytest.mark.parametrize("key", ["kb/a.md", "kb/a.md#chunk-", "#chunk-1", "kb/a.md#chunk-01"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(InvalidInput):
        judge(key, [WIDE])
