"""Documents whose files are gone from the folder that they came from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from knowport.core.wording import counted
from knowport.errors import UnknownDocument
from knowport.model import DocumentInfo, FileOutcome, FileResult
from knowport.pipelines.ingest_options import IngestOptions
from knowport.pipelines.put import PortsNow, delete_present
from knowport.ports import Ledger


@dataclass(frozen=True, slots=True)
class Missing:
    """``documents`` of the source that have no file; ``refusal`` says why deleting them may be a
    mistake, or is ''."""

    documents: Sequence[DocumentInfo] = ()
    refusal: str = ""


def of_source(ledger: Ledger, options: IngestOptions) -> Mapping[str, DocumentInfo]:
    """Documents of the source in the scope, by id. To be asked before the files are looked for,
    so that what another process adds meanwhile is not taken for missing."""
    infos = ledger.documents(kb_scope=options.kb_scope)
    return {info.doc_id: info for info in infos if info.source == options.source}


def missing(
    before: Mapping[str, DocumentInfo],
    seen: Collection[str],
    root: Path,
    files: Sequence[Path | FileResult],
    options: IngestOptions,
    selects: Callable[[str], bool],
) -> Missing:
    """Which of the documents of ``before`` have no file among those found below ``root``.

    A document that the patterns would not let pass is not missed. Of a root that is a file nothing
    is.
    """
    if list(files) == [root]:
        return Missing()
    gone = [
        info
        for doc_id, info in before.items()
        if doc_id not in seen and selects(doc_id.removeprefix(f"{options.source}/"))
    ]
    return Missing(gone, _refusal(files, options) if gone else "")


def _refusal(files: Sequence[Path | FileResult], options: IngestOptions) -> str:
    if options.force_delete:
        return ""
    if options.other_root:
        return f"The source {options.source!r} was ingested from {options.other_root!r} as well."
    if not any(isinstance(file, Path) for file in files):
        return "The folder holds no file that could be read."
    for file in files:
        if isinstance(file, FileResult) and file.outcome is FileOutcome.FAILED:
            return f"{file.path!r} cannot be read."
    return ""


def would_delete(found: Missing, root: Path, options: IngestOptions) -> list[FileResult]:
    """The results that ``delete`` would give."""
    if not options.delete_missing:
        return []
    if found.refusal:
        return [_refused(found, root)]
    return [_deleted(info, info.chunk_count, root, options) for info in found.documents]


def delete(
    found: Missing, root: Path, options: IngestOptions, ports: PortsNow
) -> Iterator[FileResult]:
    """Delete documents one by one, where ``delete_missing`` asks for it and nothing speaks against
    it; a refusal is one failed result. Raises EngineError or LedgerError."""
    if not options.delete_missing:
        return
    if found.refusal:
        yield _refused(found, root)
        return
    for info in found.documents:
        chunks = 0
        with suppress(UnknownDocument):  # another process has deleted it
            chunks = delete_present(info.doc_id, ports)
        yield _deleted(info, chunks, root, options)


def _deleted(info: DocumentInfo, chunks: int, root: Path, options: IngestOptions) -> FileResult:
    path = root / info.doc_id.removeprefix(f"{options.source}/")
    return FileResult(str(path), FileOutcome.DELETED, info.doc_id, chunks, "missing")


def _refused(found: Missing, root: Path) -> FileResult:
    return FileResult(
        str(root),
        FileOutcome.FAILED,
        reason="not_deleted",
        detail=f"{found.refusal} Still in the index without a file: "
        f"{counted(len(found.documents), 'document')}; --force-delete deletes all the same.",
    )
