"""telemetry.py: steps are timed, and spans carry names and numbers, never a text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, StatusCode

from fakes import SCALE, FakeEmbedder, FakeIndex, FakeLedger, Row, engine_error
from knowport import telemetry
from knowport.errors import EmbeddingUnavailable, EngineError, InvalidInput
from knowport.model import Timing
from knowport.pipelines.lookup import LookupOptions, LookupPorts, lookup
from knowport.telemetry import Steps

STEPS = ["plan", "embed", "search", "select", "pack"]
MARK = "zebramark"
ROWS = [Row("page", content=f"{MARK} text", title=f"{MARK} title", cosine=0.9, bm25=3)]


@pytest.fixture
def spans(monkeypatch) -> Iterator[InMemorySpanExporter]:
    """What is exported, with a provider of the test's own: the global one is set only once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_TRACER", provider.get_tracer("knowport"))
    yield exporter
    provider.shutdown()


def looked_up(query=f"{MARK} wait", *, embedder=None, failing=(), **asked):
    index = FakeIndex(ROWS, dict(failing))
    ports = LookupPorts(embedder or FakeEmbedder(), FakeLedger(ROWS), index, "g1", SCALE)
    return lookup(query, ports, LookupOptions(), **{"kb_scope": "default"} | asked)


def everything_in(span: ReadableSpan) -> str:
    return span.to_json() + repr(span.events) + repr(span.status.description)


# -- steps --------------------------------------------------------------------------------------


def test_steps_are_taken_in_order_with_their_seconds() -> None:
    ticks = itertools.count(0.0, 0.25)
    steps = Steps("test", clock=lambda: next(ticks))

    with steps("one"):
        pass
    with steps("two"):
        next(ticks)

    assert steps.taken == (Timing("one", 0.25), Timing("two", 0.5))


def test_a_step_inside_a_step_ends_first() -> None:
    steps = Steps("test")

    with steps("outer"), steps("inner"):
        pass

    assert [t.step for t in steps.taken] == ["inner", "outer"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_a_step_that_raises_is_taken_and_the_error_goes_on(error) -> None:
    steps = Steps("test")

    with pytest.raises(type(error)) as raised, steps("one"):
        raise error

    assert raised.value is error
    assert [t.step for t in steps.taken] == ["one"]


# -- spans --------------------------------------------------------------------------------------


def test_every_step_of_a_lookup_is_a_span(spans) -> None:
    looked_up()

    finished = spans.get_finished_spans()
    assert [span.name for span in finished] == [f"knowport.lookup.{step}" for step in STEPS]
    assert all(span.end_time >= span.start_time for span in finished)
    assert {span.status.status_code for span in finished} == {StatusCode.UNSET}


def test_no_text_enters_a_span(spans) -> None:
    result = looked_up()

    assert MARK in result.evidence[0].excerpt
    for span in spans.get_finished_spans():
        assert MARK not in everything_in(span)
        assert dict(span.attributes or {}) == {}


def refused():
    looked_up(category=f"{MARK}\n")


def not_embedded():
    looked_up(embedder=FakeEmbedder(EmbeddingUnavailable(f"cannot embed {MARK}")), mode="dense")


def not_found():
    looked_up(failing={leg: engine_error(MARK) for leg in ("dense", "sparse")})


@pytest.mark.parametrize(
    ("fail", "step", "error"),
    [
        (refused, "plan", InvalidInput),
        (not_embedded, "embed", EmbeddingUnavailable),
        (not_found, "search", EngineError),
    ],
)
def test_a_step_that_fails_names_the_kind_of_error_and_not_its_message(
    spans, fail, step, error
) -> None:
    """Messages quote what they are about: a category, a filter, what an endpoint sent back."""
    with pytest.raises(error, match=MARK):
        fail()

    last = spans.get_finished_spans()[-1]
    assert last.name == f"knowport.lookup.{step}"
    assert (last.status.status_code, last.status.description) == (StatusCode.ERROR, error.__name__)
    assert MARK not in everything_in(last)
    assert last.events == ()


def test_what_is_traced_inside_a_step_is_its_child(spans) -> None:
    with Steps("test")("outer"):
        looked_up()
    after = trace.get_current_span()

    *inner, outer = spans.get_finished_spans()
    assert {span.parent.span_id for span in inner} == {outer.context.span_id}
    assert outer.parent is None
    assert not after.get_span_context().is_valid, "the step's span is not current any more"


def test_without_an_exporter_nothing_is_recorded(monkeypatch) -> None:
    recorded = []
    tracer = NoOpTracerProvider().get_tracer("knowport")
    monkeypatch.setattr(telemetry, "_TRACER", tracer)
    steps = Steps("test")

    with steps("one"):
        recorded.append(trace.get_current_span().is_recording())

    assert recorded == [False]
    assert [t.step for t in steps.taken] == ["one"]


def test_nothing_of_ours_sets_up_an_exporter() -> None:
    """Installing the SDK for these tests must not have made the global provider a real one."""
    assert not isinstance(trace.get_tracer_provider(), TracerProvider)
    assert [t.step for t in looked_up().timings] == STEPS
