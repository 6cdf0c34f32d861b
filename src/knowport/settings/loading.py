"""What one file may cost: the settings."""

from __future__ import annotations

from pydantic import Field

from knowport.settings.sections import Section


class LoadingSettings(Section):
    """As ``knowport.adapters.loading.limits.LoadLimits``."""

    file_bytes: int = Field(64_000_000, ge=1, description="size of a file")
    inflated_bytes: int = Field(
        256_000_000, ge=1, description="what the text parts of a DOCX, PPTX or XLSX inflate to"
    )
    inflation_ratio: int = Field(
        200, ge=1, description="inflated over packed size of a part of more than a megabyte"
    )
    entries: int = Field(10_000, ge=1, description="files in a DOCX, PPTX or XLSX")
    pages: int = Field(5_000, ge=1, description="pages of a PDF, slides of a presentation")
    characters: int = Field(100_000_000, ge=1, description="text that a parser may return")
    seconds: float = Field(60.0, gt=0, description="time in the parser")
    memory_bytes: int = Field(
        1_500_000_000, ge=500_000_000, description="address space of the parser's process"
    )
