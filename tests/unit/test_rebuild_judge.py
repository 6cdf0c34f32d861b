"""A new index against the active one by labelled queries: when it is refused, and what is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from knowport.core.query import plan_query
from knowport.errors import (
    ConfigurationError,
    EmbeddingError,
    EmbeddingUnavailable,
    EngineError,
    KnowportError,
)
from knowport.evaluation import rebuild_judge
from knowport.evaluation.labelled import LabelledQuery
from knowport.evaluation.rebuild_judge import judge_by
from knowport.model import (
    AttemptName,
    Candidate,
    LookupResult,
    Notice,
    RelevanceLevel,
    Scores,
    SearchHit,
)
from knowport.pipelines.rebuild_ports import Lookup, Verdict
from knowport.pipelines.rebuild_sides import Side

DOCUMENTS = [f"kb/d{n}.md" for n in range(12)]


def queries(count: int = 12, unanswerable: int = 0) -> list[LabelledQuery]:
    asked = [LabelledQuery(f"q{n}", f"text {n}", (f"d{n}.md",)) for n in range(count)]
    return [*asked, *(LabelledQuery(f"none{n}", "nothing", ()) for n in range(unanswerable))]


def result(documents: Sequence[str], *, degraded: bool = False) -> LookupResult:
    hits = [
        SearchHit(f"{d}#chunk-0", d, 0, "", "", "", "kb", "", Scores(dense=0.9)) for d in documents
    ]
    # Out of order: the rank counts.
    candidates = tuple(
        Candidate(hit.id, rank, hit, ()) for rank, hit in reversed(list(enumerate(hits, start=1)))
    )
    return LookupResult(
        lookup_id="lk",
        generation="g",
        plan=plan_query("x", kb_scope="default", category=None, mode="hybrid"),
        attempts=(),
        selected_attempt=AttemptName.UNFILTERED,
        candidates=candidates,
        found=bool(hits),
        level=RelevanceLevel.HIGH,
        calibrated=False,
        evidence=(),
        drops=(),
        notices=(Notice("degraded", "One leg failed."),) if degraded else (),
        timings=(),
    )


class Clock:
    """Time that passes only where it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def at_rank(ranks: Mapping[str, int] | int) -> Lookup:
    """Finds the right document at that rank, 0: not at all."""

    def look_up(text: str) -> LookupResult:
        rank = ranks if isinstance(ranks, int) else ranks.get(text, 1)
        right = f"kb/d{text.rsplit(maxsplit=1)[-1]}.md"
        others = [f"kb/other{n}.md" for n in range(9)]
        return result([*others[: rank - 1], right, *others[rank - 1 :]] if rank else others)

    return look_up


def judged(active: Lookup, new: Lookup, of: Sequence[LabelledQuery] | None = None) -> Verdict:
    return judge_by(of or queries(), DOCUMENTS, seed=1)(active, new)


def failing(error: KnowportError, fails: Callable[[str], bool] = lambda _: True) -> Lookup:
    """Cannot look some queries up."""

    def look_up(text: str) -> LookupResult:
        if fails(text):
            raise error
        return at_rank(1)(text)

    return look_up


def once(first: Callable[[], LookupResult], text: str) -> Lookup:
    """Looks this query up so for the first time, and well from then on."""
    asked = []

    def look_up(asked_for: str) -> LookupResult:
        if asked_for == text and not asked:
            asked.append(text)
            return first()
        return at_rank(1)(asked_for)

    return look_up


AWAY = EmbeddingUnavailable("Away.")
DAMAGED = EngineError("Milvus failed on searching: index not found.")


def test_equal_is_good_enough() -> None:
    verdict = judged(at_rank(2), at_rank(2))
    assert verdict.failures == ()
    compared = verdict.report["comparison"]
    assert (compared["queries"], compared["delta"], compared["p_value"]) == (12, 0.0, 1.0)
    assert compared["mean_a"] == pytest.approx(0.6309, abs=1e-4)  # 1 / log2(3)
    assert (verdict.report["worse"], verdict.report["left_out"]) == ([], 0)


def test_better_is_better() -> None:
    verdict = judged(at_rank(3), at_rank(1))
    assert verdict.failures == ()
    assert verdict.report["comparison"]["wins"] == 12


def test_worse_by_no_accident_is_refused_and_the_queries_are_named() -> None:
    worse = {f"text {n}": 2 for n in range(6)} | {"text 3": 0}
    verdict = judged(at_rank(1), at_rank(worse))
    [failure] = verdict.failures
    assert failure.startswith("nDCG@10 over 12 labelled queries falls from 1.000 to 0.763 (p = 0.0")
    assert failure.endswith(
        "worse are q3 (1.00 to 0.00), q0 (1.00 to 0.63), q1 (1.00 to 0.63), "
        "q2 (1.00 to 0.63), q4 (1.00 to 0.63), q5 (1.00 to 0.63)"
    )
    assert verdict.report["worse"][0] == {
        "query_id": "q3",
        "text": "text 3",
        "active": 1.0,
        "new": 0.0,
    }


def test_a_little_worse_may_be_an_accident() -> None:
    verdict = judged(at_rank(1), at_rank({"text 0": 2, "text 1": 2}))
    assert verdict.report["comparison"]["delta"] == pytest.approx(-0.0615, abs=1e-4)
    assert verdict.report["comparison"]["p_value"] == 0.5
    assert verdict.failures == ()


def test_much_worse_is_refused_however_few_the_queries_are() -> None:
    verdict = judged(at_rank(1), at_rank(0), queries(2))
    assert len(verdict.failures) == 1
    assert verdict.report["comparison"]["p_value"] == 0.5


def test_a_lost_leg_is_refused() -> None:
    def degraded(text: str) -> LookupResult:
        return result([f"kb/d{text.rsplit(maxsplit=1)[-1]}.md"], degraded=text == "text 4")

    assert judged(at_rank(1), degraded).failures == (
        "1 labelled queries lose a leg of the search: q4",
    )
    assert judged(degraded, degraded).failures == (), "the active one has lost it too"


@pytest.mark.parametrize("moment", ["a leg is lost", "it fails"])
def test_what_is_lost_for_a_moment_is_not_lost(moment: str) -> None:
    def first() -> LookupResult:
        if moment == "it fails":
            raise AWAY
        return result([], degraded=True)

    verdict = judged(at_rank(1), once(first, "text 4"))
    assert verdict.failures == ()
    assert (verdict.report["comparison"]["delta"], verdict.report["left_out"]) == (0.0, 0)


class Timed:
    """Two generations that share an embedder which remembers queries; ``slow`` are the numbers of
    lookups, from 0, that something else holds up."""

    def __init__(self, embedding: float = 0.05) -> None:
        self.clock, self._embedding = Clock(), embedding
        self._known: set[str] = set()

    def side(self, seconds: float, slow: Sequence[int] = ()) -> Lookup:
        asked: list[str] = []

        def look_up(text: str) -> LookupResult:
            if text not in self._known:
                self._known.add(text)
                self.clock.now += self._embedding
            self.clock.now += seconds + 0.04 * (len(asked) in slow)
            asked.append(text)
            return at_rank(1)(text)

        return look_up

    def judged(self, active: Lookup, new: Lookup, count: int) -> Verdict:
        return judge_by(queries(count), DOCUMENTS, seed=1, clock=self.clock)(active, new)


@pytest.mark.parametrize(
    ("active", "new", "refused"), [(0.002, 0.04, True), (0.05, 0.06, False), (0.0, 0.005, False)]
)
def test_slower_lookups(active: float, new: float, refused: bool) -> None:
    """Half as long again is refused, if it can be felt."""
    timed = Timed()
    verdict = timed.judged(timed.side(active), timed.side(new), 5)
    assert ["the median lookup takes" in failure for failure in verdict.failures] == [
        True
    ] * refused
    assert verdict.report["median_ms"] == pytest.approx(
        {"active": 1000 * active, "new": 1000 * new}
    )


@pytest.mark.parametrize("count", [11, 12])
def test_whoever_is_asked_first_does_not_pay_for_the_embedding(count: int) -> None:
    """A few slow lookups among those asked second do not move the median by that."""
    timed = Timed()
    verdict = timed.judged(timed.side(0.01), timed.side(0.01, slow=(2, 6, 10)), count)
    assert verdict.failures == ()
    assert verdict.report["median_ms"] == pytest.approx({"active": 10.0, "new": 10.0})


def test_so_many_are_timed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild_judge, "TIMED", 3)
    asked: list[str] = []

    def look_up(text: str) -> LookupResult:
        asked.append(text)
        return at_rank(1)(text)

    assert judged(look_up, at_rank(1)).report["comparison"]["queries"] == 12
    assert len(asked) == 12 + 3


def test_what_says_nothing_is_left_out() -> None:
    asked = [*queries(unanswerable=2), LabelledQuery("lost", "x", ("gone.md",))]
    verdict = judged(failing(AWAY, lambda text: text == "text 0"), at_rank(1), asked)
    assert verdict.failures == ()
    assert (verdict.report["comparison"]["queries"], verdict.report["left_out"]) == (11, 4)
    for active, new in [(AWAY, AWAY), (DAMAGED, DAMAGED), (DAMAGED, AWAY)]:
        none = judged(failing(active), failing(new))
        (failure,) = none.failures
        assert failure.startswith("none of the labelled queries could be compared (")


@pytest.mark.parametrize("error", [AWAY, DAMAGED, EmbeddingError("Refused.")])
def test_what_fails_in_the_new_generation_alone_finds_nothing(error: KnowportError) -> None:
    verdict = judged(at_rank(1), failing(error, lambda text: text in ("text 0", "text 7")))
    why = error.message.rstrip(".")
    assert verdict.failures[-1] == (
        f"2 labelled queries fail in the new generation alone: q0 ({why}), q7 ({why})"
    )
    assert verdict.report["comparison"]["mean_b"] == pytest.approx(10 / 12)
    assert verdict.report["failed"][1] == {"query_id": "q7", "text": "text 7", "error": why}
    assert [worse["query_id"] for worse in verdict.report["worse"]] == ["q0", "q7"]
    assert verdict.report["left_out"] == 0
    all_of_them = judged(at_rank(1), failing(error))
    assert all_of_them.failures[0].startswith("nDCG@10 over 12 labelled queries falls from 1.000 ")


@pytest.mark.parametrize("error", [DAMAGED, ConfigurationError("It has no BM25 field.")])
def test_an_active_generation_that_cannot_be_searched(error: KnowportError) -> None:
    """Where it fails for some they are left out; where it fails for all, that is raised."""
    some = judged(failing(error, lambda text: text in ("text 0", "text 7")), at_rank(1))
    assert (some.failures, some.report["left_out"]) == ((), 2)
    with pytest.raises(type(error)) as caught:
        judged(failing(error), at_rank(1))
    assert caught.value is error


def test_documents_that_are_not_the_same_in_both_are_left_out() -> None:
    def behind() -> frozenset[str]:
        return frozenset({"kb/d3.md", "kb/d4.md", "kb/other1.md"})

    new = at_rank({"text 3": 0, "text 4": 0})
    verdict = judged(Side(at_rank(1), behind), Side(new, behind))
    assert verdict.failures == ()
    assert (verdict.report["comparison"]["queries"], verdict.report["left_out"]) == (10, 2)


def test_it_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    judge_by(
        queries(3), DOCUMENTS, seed=1, on_query=lambda done, total: told.append((done, total))
    )(at_rank(1), at_rank(1))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
