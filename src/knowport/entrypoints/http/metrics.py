"""Figures for Prometheus, taken from results and replies as they go out.

Labels are names of routes, steps, codes and outcomes: never a text, an id, a scope or a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from knowport.entrypoints.http.pools import Pool
from knowport.model import FileOutcome, IngestReport, LookupResult, RelevanceLevel

_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400)


class Metrics:
    """The figures of one service, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        Info("knowport", "The program.", registry=registry).info({"version": version("knowport")})
        self._requests = Counter(
            "knowport_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._request_seconds = Histogram(
            "knowport_http_request_seconds",
            "From the head of a request to the end of its reply.",
            ["route"],
            buckets=_QUICK,
            registry=registry,
        )
        self._lookups = Counter(
            "knowport_lookups",
            "Lookups answered, by whether they found anything and by their best level.",
            ["found", "level"],
            registry=registry,
        )
        self._step_seconds = Histogram(
            "knowport_lookup_step_seconds",
            "One step of a lookup.",
            ["step"],
            buckets=_QUICK,
            registry=registry,
        )
        self._attempts = Counter(
            "knowport_lookup_attempts", "Searches of lookups.", ["attempt"], registry=registry
        )
        self._fallbacks = Counter(
            "knowport_lookup_fallbacks",
            "Lookups that searched again without a filter that was guessed.",
            registry=registry,
        )
        self._notices = Counter(
            "knowport_lookup_notices",
            "Notices in answers: degraded, empty_index and others.",
            ["code"],
            registry=registry,
        )
        self._errors = Counter(
            "knowport_errors", "Errors told to clients.", ["code"], registry=registry
        )
        self._files = Counter(
            "knowport_ingest_files", "Files and texts taken in.", ["outcome"], registry=registry
        )
        self._chunks = Counter(
            "knowport_ingest_chunks", "Chunks of ingests.", ["done"], registry=registry
        )
        self._ingest_seconds = Histogram(
            "knowport_ingest_seconds", "An ingest.", buckets=_SLOW, registry=registry
        )
        self._rebuild_seconds = Histogram(
            "knowport_rebuild_seconds",
            "A step of a rebuild.",
            ["step", "outcome"],
            buckets=_SLOW,
            registry=registry,
        )
        # A series that is not there cannot be told from one that is 0.
        for outcome in FileOutcome:
            self._files.labels(outcome)
        for level in RelevanceLevel:
            self._lookups.labels(str(level is not RelevanceLevel.NONE).lower(), level)

    def watch_pools(self, pools: Sequence[Pool]) -> None:
        """Tell how full pools are, whenever it is asked."""
        held = self._gauge("pool_calls", "Calls that run or wait.", ["pool"])
        refused = self._gauge("pool_refused", "Calls turned away since the start.", ["pool"])
        for pool in pools:
            held.labels(pool.name).set_function(partial(getattr, pool, "held"))
            refused.labels(pool.name).set_function(partial(getattr, pool, "refused"))

    def watch(self, values: Mapping[str, Callable[[], float]], meaning: str) -> None:
        """Tell values by name, whenever it is asked."""
        for name, value in values.items():
            self._gauge(name, meaning, []).set_function(value)

    def _gauge(self, name: str, meaning: str, labels: Sequence[str]) -> Gauge:
        return Gauge(f"knowport_{name}", meaning, labels, registry=self._registry)

    def replied(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def failed(self, code: str) -> None:
        self._errors.labels(code).inc()

    def looked_up(self, result: LookupResult) -> None:
        self._lookups.labels(str(result.found).lower(), result.level).inc()
        for attempt in result.attempts:
            self._attempts.labels(attempt.name).inc()
        if len(result.attempts) > 1:
            self._fallbacks.inc()
        for notice in result.notices:
            self._notices.labels(notice.code).inc()
        for timing in result.timings:
            self._step_seconds.labels(timing.step).observe(timing.seconds)

    def took_in(self, outcome: FileOutcome) -> None:
        self._files.labels(outcome).inc()

    def ingested(self, report: IngestReport) -> None:
        for outcome in FileOutcome:
            self._files.labels(outcome).inc(report.count(outcome))
        self._chunks.labels("written").inc(report.chunks_written)
        self._chunks.labels("embedded").inc(report.chunks_embedded)
        self._ingest_seconds.observe(report.seconds)

    def rebuilt(self, step: str, seconds: float, *, failed: bool) -> None:
        self._rebuild_seconds.labels(step, "failed" if failed else "done").observe(seconds)

    def text(self) -> bytes:
        """All of it in the Prometheus text format, UTF-8."""
        return generate_latest(self._registry)
