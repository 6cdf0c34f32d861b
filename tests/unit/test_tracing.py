"""entrypoints/tracing.py: spans are exported only where the environment asks for it."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from opentelemetry import trace

from knowport.entrypoints.tracing import set_up_tracing
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
