"""What one file may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """The most that reading one file may take; what goes beyond is refused with a reason.

    ``file_bytes``       size of the file
    ``inflated_bytes``   what an archive's text parts may grow to, counted while they are inflated
    ``inflation_ratio``  inflated size over packed size, once a part is larger than a megabyte
    ``entries``          files in an archive
    ``pages``            pages of a PDF, slides of a presentation
    ``characters``       text that comes out
    ``seconds``          time in the parser
    ``memory_bytes``     address space of the parser's process
    """

    file_bytes: int = 64_000_000
    inflated_bytes: int = 256_000_000
    inflation_ratio: int = 200
    entries: int = 10_000
    pages: int = 5_000
    characters: int = 100_000_000
    seconds: float = 60.0
    memory_bytes: int = 1_500_000_000


def raised(limit: str) -> str:
    """The remedy where a file is over a limit of that name."""
    return f"Split it, or raise loading.{limit}."
