"""Steps of a pipeline, timed and, where an exporter is configured, traced.

OpenTelemetry's API does nothing until an SDK is installed and set up, so a step costs about a
microsecond by default. Spans carry names and numbers, never a document's or a query's text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import StatusCode

from knowport.model import Timing

_TRACER = trace.get_tracer("knowport")


class Steps:
    """Times the named steps of one run of a pipeline."""

    def __init__(self, pipeline: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._taken: list[Timing] = []

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        start = self._clock()
        # By itself the SDK would record the message of an error, which may quote the query.
        with _TRACER.start_as_current_span(
            f"knowport.{self._pipeline}.{step}",
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_status(StatusCode.ERROR, type(error).__name__)
                raise
            finally:
                self._taken.append(Timing(step, self._clock() - start))

    @property
    def taken(self) -> tuple[Timing, ...]:
        """The steps so far, in order of their end."""
        return tuple(self._taken)
