"""What is kept of a lookup: stored once, without texts unless asked for, and not for ever."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fakes import FakeEmbedder, FakeIndex, Row, engine_error
from knowport import KnowledgeBase, knowledge_base
from knowport.errors import EmbeddingUnavailable, EngineError, InvalidInput, LedgerError
from knowport.settings import load_settings
from support import serve_from

QUERY, TERM, BODY, HEADING, CRUMB, ALIAS = (
    "Quokkaquery",
    "wombat_term_42",
    "bandicootbody",
    "Heronheading",
    "Curlewcrumb",
    "axolotlalias",
)
ROWS = [
    Row(
        "kb/page.md",
        content=f"{BODY} {TERM}",
        cosine=0.95,
        bm25=9,
        category="ops",
        title=HEADING,
        breadcrumb=f"{HEADING} > {CRUMB}",
    ),
    Row("kb/far.md", content=f"{BODY} far", cosine=0.1, category="ops", title=HEADING),
]
ASKED = f"{QUERY} {TERM} {ALIAS}"
CATALOGUE = f'[[domain]]\nid = "ops"\nnames = ["{ALIAS}"]\n'


class Opened:
    """A knowledge base with a real ledger over the fake index."""

    def __init__(self, home: Path, *, embedder=None, failing=(), **trace) -> None:
        settings = load_settings({"home": home, "trace": trace})
        self.kb = KnowledgeBase(settings=settings, embedder=embedder or FakeEmbedder())
        serve_from(self.kb, FakeIndex(ROWS, dict(failing)))
        self.kb.set_domains(CATALOGUE)
        self.file = home / "ledger.sqlite3"

    def stored(self) -> list[str]:
        """Ids of the stored traces, oldest first."""
        with closing(sqlite3.connect(self.file)) as ledger:
            rows = ledger.execute("SELECT lookup_id FROM traces ORDER BY created_at").fetchall()
        return [name for (name,) in rows]

    def sql(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.file)) as ledger:
            for statement in statements:
                ledger.execute(statement)
            ledger.commit()


@pytest.fixture
def open_(tmp_path, monkeypatch) -> Iterator[type[Opened]]:
    monkeypatch.chdir(tmp_path)
    opened: list[Opened] = []

    def make(**options) -> Opened:
        opened.append(Opened(tmp_path / "home", **options))
        return opened[-1]

    yield make  # type: ignore[misc]
    for one in opened:
        one.kb.close()


# -- what is in it ----------------------------------------------------------------------------


def test_every_lookup_leaves_a_trace_of_how_it_went(open_) -> None:
    kb = open_().kb

    result = kb.run_lookup(ASKED)
    trace = kb.trace(result.lookup_id)

    assert list(trace) == [
        "lookup_id",
        "generation",
        "plan",
        "attempts",
        "selected_attempt",
        "found",
        "relevance_level",
        "calibrated",
        "candidates",
        "notices",
        "timings_ms",
    ]
    assert trace["lookup_id"] == result.lookup_id
    assert trace["plan"] == {
        "mode": "hybrid",
        "lexical": True,
        "kb_scope": "default",
        "category": None,
        "domains": ["ops"],
        "soft_category": "ops",
        "terms": 3,
    }
    assert [(a["name"], a["category"], a["hits"]) for a in trace["attempts"]] == [
        ("filtered", "ops", 2)
    ] + [("unfiltered", None, 2)] * (len(result.attempts) - 1)
    weights = result.attempts[-1].weights
    assert trace["attempts"][-1]["weights"] == {
        "dense": weights.dense,
        "sparse": weights.sparse,
        "reason": weights.reason,
    }
    assert trace["selected_attempt"] == result.selected_attempt
    assert (trace["found"], trace["relevance_level"]) == (True, result.level)
    assert [(c["document_id"], c["rank"], c["fate"]) for c in trace["candidates"]] == [
        ("kb/page.md#chunk-0", 1, "kept"),
        ("kb/far.md#chunk-0", 2, "below_threshold"),
    ]
    assert list(trace["timings_ms"]) == ["plan", "embed", "search", "select", "pack"]


def test_both_attempts_are_in_it_with_why_the_first_did_not_serve(open_) -> None:
    kb = open_().kb
    other = Row("kb/other.md", content=TERM, cosine=0.99, bm25=2, category="net")
    kb._parts.index.rows = [ROWS[1], other]

    trace = kb.trace(kb.lookup(ASKED).lookup_id)

    assert [(a["name"], a["low_quality"]) for a in trace["attempts"]] == [
        ("filtered", "best_evidence_is_none"),
        ("unfiltered", ""),
    ]
    assert trace["selected_attempt"] == "unfiltered"


def words_in(trace) -> set[str]:
    text = json.dumps(trace, ensure_ascii=False).lower()
    return {m for m in (QUERY, TERM, BODY, HEADING, CRUMB, ALIAS) if m.lower() in text}


@pytest.mark.parametrize("parallel", [False, True])
def test_by_default_no_text_is_in_it(open_, parallel, monkeypatch) -> None:
    if parallel:
        monkeypatch.setenv("KNOWPORT_RETRIEVAL__FILTER__PARALLEL", "true")
    kb = open_().kb

    trace = kb.trace(kb.lookup(ASKED).lookup_id)

    assert trace["candidates"]
    assert words_in(trace) == set()


def test_what_a_failure_says_is_not_in_it(open_) -> None:
    """An endpoint or an engine may quote what it was sent."""
    away = EmbeddingUnavailable(f"The endpoint refused {QUERY!r}.")
    without_embedding = open_(embedder=FakeEmbedder(away)).kb
    without_leg = open_(failing={"sparse": engine_error(f"text {TERM}")}).kb

    for kb in (without_embedding, without_leg):
        answer = kb.lookup(ASKED)
        trace = kb.trace(answer.lookup_id)
        assert "degraded" in trace["notices"]
        assert words_in(trace) == set()
    assert {a["failed_leg"] for a in trace["attempts"]} == {"sparse"}


def test_texts_are_in_it_where_the_settings_ask_for_them(open_) -> None:
    kb = open_(content=True).kb

    trace = kb.trace(kb.lookup(ASKED).lookup_id)

    assert words_in(trace) == {QUERY, TERM, BODY, HEADING, CRUMB, ALIAS}
    assert trace["query"] == ASKED
    assert [term["text"] for term in trace["plan"]["terms"]] == ASKED.lower().split()
    assert trace["evidence"] == [
        {
            "document_id": "kb/page.md#chunk-0",
            "title": HEADING,
            "breadcrumb": f"{HEADING} > {CRUMB}",
            "excerpt": f"{BODY} {TERM}",
        }
    ]


def test_a_duplicate_and_its_original_are_told_apart(open_, monkeypatch) -> None:
    monkeypatch.setenv("KNOWPORT_RETRIEVAL__FILTER__PARALLEL", "true")
    kb = open_().kb

    trace = kb.trace(kb.lookup(ASKED).lookup_id)

    assert [(c["document_id"], c["fate"], c["found_by"]) for c in trace["candidates"]] == [
        ("kb/page.md#chunk-0", "kept", ["filtered:1"]),
        ("kb/page.md#chunk-0", "duplicate", ["unfiltered:1"]),
        ("kb/far.md#chunk-0", "below_threshold", ["filtered:2"]),
        ("kb/far.md#chunk-0", "duplicate", ["unfiltered:2"]),
    ]


# -- which lookups leave one ------------------------------------------------------------------


def test_one_lookup_one_trace_and_explain_leaves_none(open_) -> None:
    opened = open_()

    first = opened.kb.lookup(ASKED)
    explained = opened.kb.explain(ASKED, document_id="kb/page.md")
    second = opened.kb.lookup("nothing of the kind")

    assert explained.whereabouts.reason == "kept"
    assert opened.stored() == [first.lookup_id, second.lookup_id]
    assert opened.kb.trace(explained.result.lookup_id) is None


def test_a_lookup_that_found_nothing_and_one_of_an_empty_index_leave_a_trace(open_) -> None:
    kb = open_().kb
    unknown = kb.lookup("x", category="nope")
    serve_from(kb, None)
    empty = kb.lookup("x")

    assert [kb.trace(a.lookup_id)["notices"] for a in (unknown, empty)] == [
        ["unknown_category"],
        ["empty_index"],
    ]


def test_a_lookup_that_failed_leaves_none(open_) -> None:
    opened = open_(failing={leg: engine_error(leg) for leg in ("dense", "sparse")})

    with pytest.raises(EngineError):
        opened.kb.lookup("lock")
    with pytest.raises(InvalidInput):
        opened.kb.lookup(" ")

    assert opened.stored() == []


@pytest.mark.parametrize("lookup_id", ["lk_unknown", "", "nul\0", "\ud835", "%", "x" * 500])
def test_an_unknown_trace_is_none(open_, lookup_id) -> None:
    kb = open_().kb
    kb.lookup("x")

    assert kb.trace(lookup_id) is None


# -- how long ---------------------------------------------------------------------------------


@pytest.mark.parametrize("off", [{"max_count": 0}, {"max_age_days": 0}])
def test_0_keeps_none_not_even_those_of_before(open_, off) -> None:
    before = open_()
    before.kb.lookup("x")
    opened = open_(**off)

    answers = [opened.kb.lookup("x") for _ in range(2)]

    assert opened.stored() == []
    assert [answer.notices for answer in answers] == [(), ()]


def test_of_more_than_the_count_the_oldest_go(open_, monkeypatch) -> None:
    """All within a second, so that their order is not that of their time to the second."""
    monkeypatch.setattr(knowledge_base, "_PRUNE_EVERY", 1)
    opened = open_(max_count=3)

    answers = [opened.kb.lookup("x") for _ in range(8)]

    assert opened.stored() == [answer.lookup_id for answer in answers[-3:]]


def test_pruning_is_done_at_the_first_lookup_and_now_and_then(open_) -> None:
    opened = open_(max_count=3)
    for _ in range(knowledge_base._PRUNE_EVERY):
        opened.kb.lookup("x")

    assert len(opened.stored()) == knowledge_base._PRUNE_EVERY
    opened.kb.lookup("x")
    assert len(opened.stored()) == 3
    again = open_(max_count=2)
    again.kb.lookup("x")
    assert len(again.stored()) == 2


def test_what_is_too_old_goes(open_, monkeypatch) -> None:
    monkeypatch.setattr(knowledge_base, "_PRUNE_EVERY", 1)
    opened = open_(max_age_days=7)
    old, recent = opened.kb.lookup("x").lookup_id, opened.kb.lookup("x").lookup_id
    shift = "UPDATE traces SET created_at = strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now', '{}')"
    opened.sql(
        shift.format("-7 days") + f" WHERE lookup_id = '{old}'",
        shift.format("-6 days") + f" WHERE lookup_id = '{recent}'",
    )

    last = opened.kb.lookup("x").lookup_id

    assert opened.stored() == [recent, last]


# -- a ledger that cannot be written ----------------------------------------------------------


def test_where_no_trace_can_be_written_the_answer_still_comes(open_) -> None:
    opened = open_()
    opened.sql("DROP TABLE traces")

    answer = opened.kb.lookup(ASKED)

    assert answer.found
    assert [notice.code for notice in answer.notices] == ["trace_not_stored"]
    assert "no such table: traces" in answer.notices[0].message
    with pytest.raises(LedgerError):
        opened.kb.trace(answer.lookup_id)


def test_the_other_notices_stay(open_) -> None:
    opened = open_()
    opened.sql("DROP TABLE traces")

    answer = opened.kb.lookup("x", category="nope")

    assert [n.code for n in answer.notices] == ["unknown_category", "trace_not_stored"]


def test_a_ledger_that_only_reads_answers_too(open_) -> None:
    """As on a full disk: reading works, and every write is refused."""
    opened = open_()
    opened.sql(
        "CREATE TRIGGER full BEFORE INSERT ON traces "
        "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    )

    answers = [opened.kb.lookup(ASKED) for _ in range(2)]

    for answer in answers:
        assert answer.found
        assert [notice.code for notice in answer.notices] == ["trace_not_stored"]
    assert "disk is full" in answers[0].notices[0].message
    assert opened.stored() == []


def test_a_key_that_is_given_as_a_category_is_not_kept(kb) -> None:
    key = "kp_abcdefghijklmnopqrstuvwxyz012345"
    result = kb.run_lookup(ASKED, category=key)
    assert key not in json.dumps(kb.trace(result.lookup_id))
