"""A new index against the active one by labelled queries: when it is refused, and what is said."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from knowport.core.query import plan_query
from knowport.errors import EmbeddingUnavailable
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


def at_rank(ranks: Mapping[str, int] | int, seconds: float = 0.0) -> Lookup:
    """Finds the right document at that rank, 0: not at all."""

    def look_up(text: str) -> LookupResult:
        time.sleep(seconds)
        rank = ranks if isinstance(ranks, int) else ranks.get(text, 1)
        right = f"kb/d{text.rsplit(maxsplit=1)[-1]}.md"
        others = [f"kb/other{n}.md" for n in range(9)]
        return result([*others[: rank - 1], right, *others[rank - 1 :]] if rank else others)

    return look_up


def judged(active: Lookup, new: Lookup, of: Sequence[LabelledQuery] | None = None) -> Verdict:
    return judge_by(of or queries(), DOCUMENTS, seed=1)(active, new)


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


@pytest.mark.parametrize(
    ("active", "new", "refused"), [(0.002, 0.04, True), (0.05, 0.06, False), (0.0, 0.005, False)]
)
def test_slower_lookups(active: float, new: float, refused: bool) -> None:
    """Half as long again is refused, if it can be felt."""
    verdict = judged(at_rank(1, active), at_rank(1, new), queries(5))
    assert ["the median lookup takes" in failure for failure in verdict.failures] == [
        True
    ] * refused


def test_what_says_nothing_is_left_out() -> None:
    def away(fails: Callable[[str], bool]) -> Lookup:
        def look_up(text: str) -> LookupResult:
            if fails(text):
                raise EmbeddingUnavailable("Away.")
            return at_rank(1)(text)

        return look_up

    asked = [*queries(unanswerable=2), LabelledQuery("lost", "x", ("gone.md",))]
    verdict = judged(at_rank(1), away(lambda text: text == "text 0"), asked)
    assert verdict.failures == ()
    assert (verdict.report["comparison"]["queries"], verdict.report["left_out"]) == (11, 4)
    none = judged(at_rank(1), away(lambda _: True))
    assert none.failures == ("None of the labelled queries could be compared.",)


def test_it_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    judge_by(
        queries(3), DOCUMENTS, seed=1, on_query=lambda done, total: told.append((done, total))
    )(at_rank(1), at_rank(1))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
