"""The section of the MCP server."""

from __future__ import annotations

from pydantic import Field

from knowport.settings.sections import Section


class McpSettings(Section):
    max_bytes: int = Field(
        48_000,
        ge=4_000,
        le=1_000_000,
        description="most UTF-8 bytes of a reply; 48,000 are less than 25,000 tokens",
    )
    threads: int = Field(4, ge=1, le=64, description="lookups at once of a stdio server")
