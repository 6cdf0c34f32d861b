"""The section of the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from knowport.settings.sections import Section


class ServerSettings(Section):
    host: str = Field("127.0.0.1", min_length=1, description="address or name to listen on")
    port: int = Field(8765, ge=0, le=65_535, description="0 takes a free one")
    allowed_hosts: tuple[str, ...] = Field(
        (), description="names that requests may ask for; on loopback besides its own"
    )
    ingest_roots: tuple[Path, ...] = Field(
        (), description="folders that POST /v1/ingest may read; none: it is off"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="of the JSON log on standard error"
    )

    # What one client may take.
    max_body_bytes: int = Field(32 * 2**20, ge=1_024, description="of a request's body")
    max_header_bytes: int = Field(32 * 2**10, ge=1_024, description="of a request's head")
    header_timeout: float = Field(10, gt=0, description="seconds to send a request's head")
    body_timeout: float = Field(60, gt=0, description="seconds to send a request's body")
    keep_alive: float = Field(15, gt=0, description="seconds an unused connection stays open")
    rate_per_second: float = Field(50, ge=0, description="requests of one key; 0: no limit")
    rate_burst: int = Field(100, ge=1, description="requests of one key at once")

    # What all clients together may take.
    max_connections: int = Field(1_000, ge=1, description="more are turned away with 503")
    lookup_threads: int = Field(4, ge=1, le=64, description="lookups and reads at once")
    lookup_queue: int = Field(256, ge=0, description="that wait; more are turned away with 503")
    write_threads: int = Field(2, ge=1, le=16, description="writes at once")
    write_queue: int = Field(32, ge=0, description="that wait; more are turned away with 503")
    job_queue: int = Field(16, ge=0, description="jobs that wait for the one that runs")
    request_timeout: float = Field(30, gt=0, description="seconds for a lookup or a read")
    write_timeout: float = Field(300, gt=0, description="seconds for a write")

    # How it ends.
    drain_seconds: float = Field(
        1, ge=0, description="seconds it still takes requests after it was told to stop"
    )
    shutdown_timeout: float = Field(
        60, gt=0, description="seconds that accepted requests then have to finish"
    )
