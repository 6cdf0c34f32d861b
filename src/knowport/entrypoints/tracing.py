"""Spans sent to a collector, as the standard OpenTelemetry variables of the environment say."""

from __future__ import annotations

import os

from opentelemetry import trace

from knowport.errors import ConfigurationError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def set_up_tracing() -> None:
    """Export spans over OTLP/HTTP if an endpoint is named. The SDK reads the other variables
    itself: OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and so on.

    Raises ConfigurationError where the SDK is not installed.
    """
    off = os.environ.get("OTEL_TRACES_EXPORTER") == "none" or (
        os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    )
    if off or not any(os.environ.get(name) for name in _ENDPOINTS):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{_ENDPOINTS[0]} asks for traces, and the exporter is not installed: {error.name}.",
            remedy="Install it: pip install 'knowport[otel]'; or unset the variable.",
        ) from error
    os.environ.setdefault("OTEL_SERVICE_NAME", "knowport")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
