"""Spans sent to a collector, as the standard OpenTelemetry variables of the environment say.

Ours carry names and numbers. Libraries make spans too, so what a message of an error could tell is
taken out of all of them before they leave, and secrets are masked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace

from knowport.core.redaction import Redactor
from knowport.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def set_up_tracing(secrets: Iterable[str] = ()) -> None:
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

    redact = Redactor(secrets)

    class Exporter(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return super().export([cleaned(span, redact) for span in spans])

    os.environ.setdefault("OTEL_SERVICE_NAME", "knowport")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Exporter()))
    trace.set_tracer_provider(provider)


def cleaned(span: ReadableSpan, redact: Redactor) -> ReadableSpan:
    """A span without messages of errors, and with secrets masked."""
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415
    from opentelemetry.trace import Status  # noqa: PLC0415

    description = span.status.description or ""
    return ReadableSpan(
        name=redact(span.name),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=redact.values(dict(span.attributes or {})),
        events=(),
        links=span.links,
        kind=span.kind,
        # A name of a kind of error stays.
        status=Status(span.status.status_code, description if description.isidentifier() else None),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
