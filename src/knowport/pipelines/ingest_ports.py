"""What writing documents needs from the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from knowport.core.chunking import ChunkingOptions
from knowport.model import FileResult, LoadedFile
from knowport.pipelines.replace import Index
from knowport.ports import Embedder, Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPorts:
    """What is enough to see what an ingest would do.

    ``find`` lists the files below a root in order, by patterns to include and to exclude, with a
    result in place of what is no file to be read; ``selector`` tells whether a path passes those
    patterns. ``digest`` is the hex SHA-256 of a file's bytes. ``load`` reads a file, ``load_bytes``
    an upload of a name. The last three raise LoadError. ``loader_version`` is another one when
    other texts are made of the same bytes. ``chunking`` is how texts are cut.
    """

    ledger: Ledger
    chunking: ChunkingOptions
    find: Callable[[Path, Sequence[str], Sequence[str]], Iterator[Path | FileResult]]
    selector: Callable[[Sequence[str], Sequence[str]], Callable[[str], bool]]
    digest: Callable[[Path], str]
    load: Callable[[Path], LoadedFile]
    load_bytes: Callable[[bytes, str], LoadedFile]
    loader_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPorts(ReadPorts):
    """What an ingest works with; ``index`` is the generation of that name."""

    embedder: Embedder
    index: Index
    generation: str

    @classmethod
    def over(
        cls, read: ReadPorts, *, embedder: Embedder, index: Index, generation: str
    ) -> IngestPorts:
        same = {field.name: getattr(read, field.name) for field in fields(ReadPorts)}
        return cls(**same, embedder=embedder, index=index, generation=generation)
