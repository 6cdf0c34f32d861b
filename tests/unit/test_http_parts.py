"""Parts of the HTTP service that need no service: rates, strict JSON, problems, metrics."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowport import errors
from knowport.core.redaction import Redactor
from knowport.entrypoints.http import strict_json
from knowport.entrypoints.http.metrics import Metrics
from knowport.entrypoints.http.problems import STATUS_OF, Problem, as_problem
from knowport.entrypoints.http.rates import RateLimiter
from knowport.entrypoints.http.replies import problems
from knowport.model import FileOutcome, FileResult, IngestReport

# -- rates ------------------------------------------------------------------------------------


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def allowed(limiter: RateLimiter, key: str, times: int) -> int:
    """How many of so many requests at once are taken."""
    taken, refused = 0, []
    for _ in range(times):
        try:
            limiter.take(key)
            taken += 1
        except Problem as problem:
            refused.append(problem.status_code)
    assert set(refused) <= {429}
    return taken


def test_a_bucket_fills_at_its_rate_and_never_beyond_its_burst() -> None:
    clock = Clock()
    limiter = RateLimiter(2.0, 5, clock)

    assert allowed(limiter, "a", 9) == 5
    clock.now += 1.6  # 3.2 tokens
    assert allowed(limiter, "a", 9) == 3
    clock.now += 0.4  # with the 0.2 that were left: one
    assert allowed(limiter, "a", 9) == 1
    clock.now += 1_000
    assert allowed(limiter, "a", 9) == 5
    assert allowed(limiter, "b", 9) == 5


def test_who_is_turned_away_is_told_how_long_in_whole_seconds() -> None:
    limiter = RateLimiter(0.25, 1, Clock())
    limiter.take("a")

    with pytest.raises(Problem) as refused:
        limiter.take("a")

    assert refused.value.headers == {"Retry-After": "4"}
    assert refused.value.transient


def test_without_a_rate_or_a_key_there_is_no_limit() -> None:
    assert allowed(RateLimiter(0, 1, Clock()), "a", 50) == 50
    assert allowed(RateLimiter(1, 1, Clock()), "", 50) == 50


# -- strict JSON ------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_whatever_json_can_say_is_read_as_json_reads_it(value: Any, escaped: bool) -> None:
    body = json.dumps(value, ensure_ascii=escaped).encode("utf-8")

    assert strict_json.loads(body) == value


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
def test_whatever_comes_is_a_value_or_a_400(body: bytes) -> None:
    try:
        answer: Any = strict_json.loads(body)
    except Problem as problem:
        answer = [problem.status_code, bool(problem.remedy)]
        body = b"[400, true]"
    # It can be written again, so nothing in it is beyond JSON.
    written = json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()
    assert strict_json.loads(written) == strict_json.loads(body)


def test_half_a_surrogate_pair_is_refused_and_a_whole_one_is_a_character() -> None:
    assert strict_json.loads(b'"\\ud83d\\ude91 \\\\ud800"') == "\U0001f691 \\ud800"
    with pytest.raises(Problem, match="surrogate"):
        strict_json.loads(b'{"a": ["\\uD83D"]}')


# -- problems ---------------------------------------------------------------------------------


def kinds() -> list[type[errors.KnowportError]]:
    found, todo = [], [errors.KnowportError]
    while todo:
        kind = todo.pop()
        todo.extend(kind.__subclasses__())
        if kind.__module__ == "knowport.errors" and kind is not errors.KnowportError:
            found.append(kind)
    return found


@pytest.mark.parametrize("kind", kinds())
def test_every_error_of_ours_has_a_status_that_says_whose_fault_it_is(kind: Any) -> None:
    assert kind.code in STATUS_OF
    status = STATUS_OF[kind.code]
    assert 400 <= status <= 599
    if kind.transient:
        assert status == 503
    assert status in problems(404, 409)  # so it is in the description of the routes


def test_what_may_pass_says_when_to_try_again() -> None:
    problem = as_problem(errors.LedgerBusy("Another writer is at it.", remedy="Wait."))

    assert problem.status_code == 503
    assert problem.headers == {"Retry-After": "1"}
    assert problem.transient


def test_a_fault_says_nothing_of_itself() -> None:
    document = as_problem(ZeroDivisionError("at /srv/secret")).document("r1", Redactor())

    assert (document["status"], document["code"]) == (500, "internal")
    assert "/srv/secret" not in json.dumps(document)


def test_one_text_to_blame_is_the_fault_of_the_request() -> None:
    assert as_problem(errors.EmbeddingError("too long", position=0)).status_code == 422
    assert as_problem(errors.EmbeddingError("not reachable")).status_code == 502


def test_a_message_that_utf8_cannot_carry_is_still_told() -> None:
    error = errors.InvalidInput("half \ud800 of a pair", field="query")

    document = json.loads(as_problem(error).body("r1", Redactor()))

    assert "half" in document["detail"]
    assert document["errors"][0]["field"] == "query"


# -- figures ----------------------------------------------------------------------------------


def test_an_ingest_is_counted_by_outcome() -> None:
    metrics = Metrics()
    files = [
        FileResult("a", FileOutcome.INDEXED),
        FileResult("b", FileOutcome.FAILED),
        FileResult("c", FileOutcome.FAILED),
    ]

    metrics.ingested(IngestReport(files, chunks_written=7, chunks_embedded=5, seconds=2.0))

    text = metrics.text().decode()
    for line in (
        'knowport_ingest_files_total{outcome="indexed"} 1.0',
        'knowport_ingest_files_total{outcome="failed"} 2.0',
        'knowport_ingest_files_total{outcome="deleted"} 0.0',
        'knowport_ingest_chunks_total{done="written"} 7.0',
        'knowport_ingest_chunks_total{done="embedded"} 5.0',
        "knowport_ingest_seconds_sum 2.0",
    ):
        assert line in text


def test_two_services_of_one_process_do_not_share_their_figures() -> None:
    first, second = Metrics(), Metrics()

    first.failed("internal")

    assert 'knowport_errors_total{code="internal"} 1.0' in first.text().decode()
    assert "internal" not in second.text().decode()
