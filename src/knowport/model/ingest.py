"""What an ingest reads and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from knowport.model.values import Metadata, TextFormat


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The text of a file, not yet normalised, and where it came from.

    ``kind`` is the format its content has (markdown, text, html, pdf, docx, ...); ``encoding`` is
    the codec it was decoded with, '' where the format has none; ``title`` is what the format says
    of itself; ``removed`` counts characters of hidden or undecodable content that were left out;
    ``file_hash`` is the hex SHA-256 of the bytes.
    """

    text: str
    text_format: TextFormat
    kind: str = "text"
    encoding: str = "utf-8"
    title: str = ""
    removed: int = 0
    metadata: Metadata = field(default_factory=dict)
    file_hash: str = ""


class FileOutcome(StrEnum):
    INDEXED = "indexed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file of an ingest; ``reason`` is a stable code, ``detail`` is prose."""

    path: str
    outcome: FileOutcome
    doc_id: str | None = None
    chunks: int = 0
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """Where an ingest is. Bytes are of the files found; ``path`` is the file at hand."""

    bytes_done: int
    bytes_total: int
    files_done: int
    files_total: int
    chunks_done: int
    path: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did, file by file.

    ``vanished`` are documents of the source whose files are not in the folder; they stay in the
    index until they are deleted.
    """

    files: Sequence[FileResult]
    chunks_written: int
    chunks_embedded: int
    seconds: float
    interrupted: bool = False
    vanished: Sequence[str] = ()

    def count(self, outcome: FileOutcome) -> int:
        """Number of files with that outcome."""
        return sum(f.outcome is outcome for f in self.files)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that a source came from, and the options that it was ingested with, as JSON values;
    None where not the folder was ingested, but single files of it."""

    folder: Path
    options: Metadata | None


@dataclass(frozen=True, slots=True)
class Reread:
    """A folder that was to be read again; ``report`` is None where it was not, because it is gone,
    or single files of it were ingested."""

    source: str
    folder: str
    report: IngestReport | None
