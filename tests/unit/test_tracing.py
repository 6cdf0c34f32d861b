"""entrypoints/tracing.py: spans are exported only where the environment asks for it."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from knowport.core.redaction import Redactor
from knowport.entrypoints.tracing import cleaned, set_up_tracing
from knowport.errors import ConfigurationError


@pytest.fixture(autouse=True)
def set_up(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The providers that were set up; the global one is left alone, it can be set only once."""
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    providers: list[Any] = []
    monkeypatch.setattr(trace, "set_tracer_provider", providers.append)
    return providers


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"},
    ],
)
def test_nothing_is_exported_unless_an_endpoint_is_named(
    monkeypatch: pytest.MonkeyPatch, set_up: list[Any], environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    set_up_tracing()

    assert set_up == []


def test_the_service_has_a_name_that_the_environment_may_change(
    monkeypatch: pytest.MonkeyPatch, set_up: list[Any]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "kb-eu")
    set_up_tracing()
    monkeypatch.delenv("OTEL_SERVICE_NAME")
    set_up_tracing()

    assert [p.resource.attributes["service.name"] for p in set_up] == ["kb-eu", "knowport"]
    for provider in set_up:
        provider.shutdown()


def test_an_exporter_that_is_not_installed_is_named_with_the_way_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
    known = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry.exporter"):
            raise ModuleNotFoundError("no", name=name)
        return known(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(ConfigurationError, match=r"opentelemetry\.exporter.*knowport\[otel\]"):
        set_up_tracing()


def test_what_leaves_has_no_message_and_no_secret() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("library")
    with tracer.start_as_current_span("call kp_0123456789abcdef") as span:
        span.set_attribute("tool", "kp_0123456789abcdef")
        span.set_attribute("count", 3)
        span.record_exception(ValueError("quotes the query"))
        span.set_status(StatusCode.ERROR, "quotes the query")
    with tracer.start_as_current_span("other") as span:
        span.set_status(StatusCode.ERROR, "EngineError")

    first, second = (cleaned(span, Redactor()) for span in exporter.get_finished_spans())

    assert first.name == "call ***"
    assert dict(first.attributes or {}) == {"tool": "***", "count": 3}
    assert first.events == ()
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, None)
    assert second.status.description == "EngineError"
    assert (first.start_time, first.context) == (
        exporter.get_finished_spans()[0].start_time,
        exporter.get_finished_spans()[0].context,
    )
