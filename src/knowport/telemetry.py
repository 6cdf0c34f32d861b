"""Steps of a pipeline, timed and, where an exporter is configured, traced.

OpenTelemetry's API does nothing until an SDK is installed and set up, so a step costs about a
microsecond by default. Spans carry names and numbers, never a document's or a query's text.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Token
from types import TracebackType

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode

from knowport.model import Timing

_TRACER = trace.get_tracer("knowport")


class Steps:
    """Times the named steps of one run of a pipeline."""

    def __init__(self, pipeline: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._taken: list[Timing] = []

    def __call__(self, step: str) -> AbstractContextManager[None]:
        return _Step(step, f"knowport.{self._pipeline}.{step}", self._clock, self._taken)

    @property
    def taken(self) -> tuple[Timing, ...]:
        """The steps so far, in order of their end."""
        return tuple(self._taken)


class _Step(AbstractContextManager[None]):
    """One step, entered once. Spelt out, because the context managers of ``contextlib`` and of
    OpenTelemetry take three times as long as all else here."""

    def __init__(
        self, step: str, span: str, clock: Callable[[], float], taken: list[Timing]
    ) -> None:
        self._step = step
        self._name = span
        self._clock = clock
        self._taken = taken
        self._token: Token[Context] | None = None
        self._start = 0.0
        self._span: Span = trace.INVALID_SPAN

    def __enter__(self) -> None:
        self._start = self._clock()
        self._span = _TRACER.start_span(self._name)
        if self._span.get_span_context().is_valid:  # else nobody listens
            self._token = context.attach(trace.set_span_in_context(self._span))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if kind is not None:  # its message may quote the query, so the span gets its name alone
            self._span.set_status(StatusCode.ERROR, kind.__name__)
        if self._token is not None:
            context.detach(self._token)
        self._span.end()
        self._taken.append(Timing(self._step, self._clock() - self._start))
