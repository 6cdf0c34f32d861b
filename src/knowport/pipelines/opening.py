"""The first stage of an ingest: from files to cut documents, or to the reason why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knowport.errors import InvalidInput, LoadError
from knowport.model import Document, DocumentInfo, FileOutcome, FileResult, LoadedFile
from knowport.pipelines.documents import Origin, build_document, file_key
from knowport.pipelines.flow import Room
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
    """A file whose document is to be written; ``reason`` and ``detail`` say why, for its result.

    ``size`` is the room that was taken for it.
    """

    path: str
    cut: CutDocument
    reason: str
    detail: str
    size: int

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
    """A file with which nothing is to be done. ``document``, without its text, is the one that the
    index holds already, where the ledger does not know yet that this file makes it."""

    result: FileResult
    document: Document | None = None

    @property
    def path(self) -> str:
        return self.result.path


class Reader:
    """Opens files in order. ``path`` is the one at hand, ``seen`` the file of each document id.

    For a text ``room`` is taken, in characters, which whoever takes an ``Opened`` gives back.
    """

    def __init__(
        self,
        ports: ReadPorts,
        options: IngestOptions,
        root: Path,
        seen: dict[str, str],
        room: Room,
    ) -> None:
        self._ports, self._options, self._room = ports, options, room
        self._root = f"{root}".rstrip("/") + "/"
        self.seen, self.path = seen, ""

    def open(self, files: Sequence[Path | FileResult]) -> Iterator[Settled | Opened]:
        """One item for each file. Raises LedgerError, and Closed where there will be no room."""
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
        if known is not None and self._may_stay(known) and self._is_same(path, origin, known):
            return Settled(_unchanged(path, known))
        size = file_size(path)
        self._room.take(size)
        try:
            loaded = self._ports.load(Path(path))
            more = max(0, len(loaded.text) - size)  # packed formats hold more than their size
            self._room.take_more(more)
            size += more
            item = self._cut(path, origin, loaded, known, size)
        except LoadError as error:
            item = Settled(_not_loaded(path, origin.doc_id, error, known))
        except InvalidInput as error:
            item = Settled(_failed(path, origin.doc_id, f"invalid_{error.field}", error))
        if isinstance(item, Settled):
            self._room.give_back(size)
        return item

    def _may_stay(self, known: DocumentInfo) -> bool:
        return known.state == "indexed" and not self._options.force

    def _is_same(self, path: str, origin: Origin, known: DocumentInfo) -> bool:
        """Whether the bytes of the file are those that its document was made of."""
        if not known.file_hash:
            return False
        try:
            raw_hash = self._ports.digest(Path(path))
        except LoadError:
            return False  # loading it will say what is wrong
        return known.file_hash == file_key(raw_hash, origin, self._ports.loader_version)

    def _cut(
        self,
        path: str,
        origin: Origin,
        loaded: LoadedFile,
        known: DocumentInfo | None,
        size: int,
    ) -> Settled | Opened:
        key = file_key(loaded.file_hash, origin, self._ports.loader_version)
        document = build_document(loaded, origin, file_hash=key)
        refuse_other_scope(document, known)
        if known is not None and self._may_stay(known) and is_current(known, document):
            return Settled(_unchanged(path, known), replace(document, text=""))
        whole = cut(document, self._ports.chunking)
        if not whole.chunks:
            empty = LoadError("It holds no text.", reason="empty")
            return Settled(_not_loaded(path, document.doc_id, empty, known))
        return Opened(path, whole, *_why(document, loaded, known), size)


def file_size(path: str) -> int:
    """Bytes of a file; 0 where that cannot be known, and reading it will say why."""
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError):
        return 0


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
    if loaded.encoding not in {"", "utf-8", "utf-8-sig"}:
        said.append(f"Read as {loaded.encoding}.")
    removed = loaded.removed + len(loaded.text) - len(document.text)
    if removed:
        said.append(f"{removed} characters of hidden or unreadable content were left out.")
    return reason, " ".join(said)
