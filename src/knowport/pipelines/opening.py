"""The first stage of an ingest: from files to cut documents, or to the reason why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowport.errors import InvalidInput, LoadError
from knowport.model import Document, DocumentInfo, FileOutcome, FileResult, LoadedFile
from knowport.pipelines.documents import Origin, build_document, file_key
from knowport.pipelines.ingest_options import IngestOptions
from knowport.pipelines.ingest_ports import ReadPorts
from knowport.pipelines.replace import CutDocument, cut, is_current, refuse_other_scope

# So many files are asked of the ledger at once.
LOOK_AHEAD = 500
# What makes a file no document, and is no fault.
SKIPPED = {"unsupported_format", "empty"}
_STAYS = " The version of before stays in the index."


@dataclass(frozen=True, slots=True)
class Opened:
    """A file whose document is to be written; ``reason`` and ``detail`` say why, for its result."""

    path: str
    cut: CutDocument
    reason: str
    detail: str

    @property
    def doc_id(self) -> str:
        return self.cut.document.doc_id

    def indexed(self) -> FileResult:
        return FileResult(
            self.path,
            FileOutcome.INDEXED,
            self.doc_id,
            len(self.cut.chunks),
            self.reason,
            self.detail,
        )

    def failed(self, reason: str, error: Exception) -> FileResult:
        stays = "" if self.reason == "new" else _STAYS
        return FileResult(
            self.path, FileOutcome.FAILED, self.doc_id, reason=reason, detail=f"{error}{stays}"
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """A file with which nothing is to be done. ``document`` is the one that the index holds
    already, where the ledger does not know yet that this file makes it."""

    result: FileResult
    document: Document | None = None

    @property
    def path(self) -> str:
        return self.result.path


class Reader:
    """Opens files in order. ``path`` is the one at hand, ``seen`` the file of each document id."""

    def __init__(
        self, ports: ReadPorts, options: IngestOptions, root: Path, seen: dict[str, str]
    ) -> None:
        self._ports, self._options = ports, options
        self._root = f"{root}".rstrip("/") + "/"
        self.seen, self.path = seen, ""

    def open(self, files: Sequence[Path | FileResult]) -> Iterator[Settled | Opened]:
        """One item for each file. Raises LedgerError."""
        for start in range(0, len(files), LOOK_AHEAD):
            some = [self._named(file) for file in files[start : start + LOOK_AHEAD]]
            known = self._ports.ledger.infos([o.doc_id for o in some if isinstance(o, Origin)])
            for file, origin in zip(files[start : start + LOOK_AHEAD], some, strict=True):
                self.path = str(file) if isinstance(file, Path) else file.path
                if isinstance(origin, FileResult):
                    yield Settled(origin)
                else:
                    yield self._open(self.path, origin, known.get(origin.doc_id))

    def _named(self, file: Path | FileResult) -> Origin | FileResult:
        if isinstance(file, FileResult):
            return file
        path = str(file)
        doc_id = None
        try:
            origin = self._options.origin(path, self._root)
            doc_id = origin.doc_id
            self._claim(doc_id, path)
        except InvalidInput as error:
            return _failed(path, doc_id, f"invalid_{error.field}", error)
        return origin

    def _claim(self, doc_id: str, path: str) -> None:
        # Two names that differ only in Unicode form have one id: neither may win silently.
        other = self.seen.setdefault(doc_id, path)
        if other != path:
            raise InvalidInput(
                f"It has the same document id as {other!r}.",
                field="doc_id",
                remedy="Rename one of them.",
            )

    def _open(self, path: str, origin: Origin, known: DocumentInfo | None) -> Settled | Opened:
        whole = known is not None and known.state == "indexed" and not self._options.force
        try:
            if known is not None and whole and known.file_hash:
                key = file_key(self._ports.digest(Path(path)), origin, self._ports.loader_version)
                if key == known.file_hash:
                    return Settled(_unchanged(path, known))
            loaded = self._ports.load(Path(path))
            key = file_key(loaded.file_hash, origin, self._ports.loader_version)
            document = build_document(loaded, origin, file_hash=key)
            refuse_other_scope(document, known)
        except LoadError as error:
            return Settled(_not_loaded(path, origin.doc_id, error, known))
        except InvalidInput as error:
            return Settled(_failed(path, origin.doc_id, f"invalid_{error.field}", error))
        if known is not None and whole and is_current(known, document):
            return Settled(_unchanged(path, known), document)
        return self._cut(path, document, loaded, known)

    def _cut(
        self, path: str, document: Document, loaded: LoadedFile, known: DocumentInfo | None
    ) -> Settled | Opened:
        whole = cut(document, self._ports.chunking)
        if not whole.chunks:
            empty = LoadError("It holds no text.", reason="empty")
            return Settled(_not_loaded(path, document.doc_id, empty, known))
        return Opened(path, whole, *_why(document, loaded, known))


def _unchanged(path: str, known: DocumentInfo) -> FileResult:
    return FileResult(path, FileOutcome.UNCHANGED, known.doc_id, known.chunk_count)


def _failed(path: str, doc_id: str | None, reason: str, error: Exception) -> FileResult:
    return FileResult(path, FileOutcome.FAILED, doc_id, reason=reason, detail=str(error))


def _not_loaded(path: str, doc_id: str, error: LoadError, known: DocumentInfo | None) -> FileResult:
    """A good version is never replaced by nothing: that a file was one before is a failure now."""
    if known is None and error.reason in SKIPPED:
        outcome = FileOutcome.SKIPPED
    else:
        outcome = FileOutcome.FAILED
    detail = f"{error}{_STAYS if known else ''}"
    return FileResult(path, outcome, doc_id, reason=error.reason, detail=detail)


def _why(document: Document, loaded: LoadedFile, known: DocumentInfo | None) -> tuple[str, str]:
    """Reason and detail of a document that is to be written."""
    said = []
    if known is None:
        reason = "new"
    elif known.state != "indexed":
        reason = "unfinished"
    elif known.content_hash == document.content_hash:
        reason = "forced"
    elif known.category != document.category:
        reason = "category"
        said.append(f"Its category was {known.category!r} and is {document.category!r} now.")
    else:
        reason = "changed"
    if loaded.encoding not in {"", "utf-8"}:
        said.append(f"Read as {loaded.encoding}.")
    if loaded.removed:
        said.append(f"{loaded.removed} hidden or unreadable characters were left out.")
    return reason, " ".join(said)
