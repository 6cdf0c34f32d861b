"""From files to an index: load, chunk, embed what is new, replace.

Files are taken in order and written in groups, because ten rows in a write cost the engine a
third of what five hundred do. A group grows while groups take less than a second, so that a slow
embedder still finishes its documents a few at a time. Vectors are made before anything is
written, so an embedder that fails leaves every document as it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path

from knowport.core.chunking import ChunkingOptions, document_title
from knowport.core.compose import text_hash
from knowport.core.filter_values import checked_filter
from knowport.core.front_matter import FrontMatter, split_front_matter
from knowport.core.identity import make_doc_id
from knowport.core.text import normalise_text
from knowport.errors import EmbeddingError, EngineError, InvalidInput, LoadError
from knowport.model import (
    Document,
    DocumentInfo,
    FileOutcome,
    FileResult,
    IngestProgress,
    IngestReport,
    LoadedFile,
)
from knowport.pipelines.replace import CutDocument, Index, Write, cut, replace_documents
from knowport.pipelines.vectors import Vectors
from knowport.ports import Embedder, Ledger

# Part of every content hash: a change in how chunks are cut makes every document new.
CHUNKER_VERSION = 1
# Chunks that a group holds at least: at first, and while groups are quick.
FIRST_GROUP, LARGEST_GROUP = 250, 500
QUICK_SECONDS = 1.0
# So many files are asked of the ledger at once.
LOOK_AHEAD = 100


@dataclass(frozen=True, slots=True)
class IngestPorts:
    """What an ingest works with. ``find`` lists files in order, ``load`` reads one."""

    embedder: Embedder
    ledger: Ledger
    index: Index
    chunking: ChunkingOptions
    find: Callable[[Path], Iterator[Path]]
    load: Callable[[Path], LoadedFile]


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How files become documents.

    ``source`` prefixes every document id. A category is the one given here, else the first
    folder below the root with ``category_from_folder``, else the front matter's.
    """

    source: str
    kb_scope: str
    category: str | None = None
    category_from_folder: bool = False
    force: bool = False


def ingest(
    root: Path,
    ports: IngestPorts,
    options: IngestOptions,
    *,
    on_progress: Callable[[IngestProgress], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> IngestReport:
    """Bring the files below ``root`` into the index.

    A file that cannot be used is reported and the others go on. ``should_stop`` is asked between
    files and between embedding batches; what has all its vectors by then is still written. Raises
    InvalidInput for the root or the options, and EngineError, EmbeddingError or LedgerError where
    going on makes no sense; what was finished until then stays.
    """
    started = time.monotonic()
    options = _checked(options)
    files = list(ports.find(root))
    run = _Run(ports, options, root if root.is_dir() else root.parent, files)
    results: list[FileResult] = []
    for group in run.groups(should_stop):
        results.extend(run.write(group, should_stop, on_progress))
        if run.stopped:
            break
    _verify(ports, options.kb_scope)
    return IngestReport(
        files=results,
        chunks_written=run.written,
        chunks_embedded=run.embedded,
        seconds=time.monotonic() - started,
        interrupted=len(results) < len(files),
        vanished=() if run.stopped or root.is_file() else _vanished(ports, options, run.seen),
    )


def _vanished(
    ports: IngestPorts, options: IngestOptions, seen: Mapping[str, Path]
) -> tuple[str, ...]:
    """Documents of the source that have no file in the folder (any more)."""
    infos = ports.ledger.documents(kb_scope=options.kb_scope)
    return tuple(i.doc_id for i in infos if i.source == options.source and i.doc_id not in seen)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file whose document is new or changed."""

    path: Path
    cut: CutDocument
    new: bool

    @property
    def doc_id(self) -> str:
        return self.cut.document.doc_id

    def failed(self, reason: str, error: Exception) -> FileResult:
        return FileResult(
            str(self.path), FileOutcome.FAILED, self.doc_id, reason=reason, detail=str(error)
        )


class _Run:
    """The state of one ingest: what it has seen and counted."""

    def __init__(
        self, ports: IngestPorts, options: IngestOptions, root: Path, files: Sequence[Path]
    ) -> None:
        self.ports, self.options, self.root, self.files = ports, options, root, files
        self.bytes = list(accumulate(map(_size, files), initial=0))
        self.seen: dict[str, Path] = {}
        self.done = self.written = self.embedded = 0
        self.stopped = False

    # -- reading ----------------------------------------------------------------------------

    def groups(self, should_stop: Callable[[], bool]) -> Iterator[list[FileResult | _Opened]]:
        """Files in order, in groups that hold enough chunks to be worth a write."""
        group: list[FileResult | _Opened] = []
        chunks, goal, started = 0, FIRST_GROUP, time.monotonic()
        for path, known in self._with_infos():
            if should_stop():
                self.stopped = True
                break
            group.append(self._open(path, known))
            chunks += _chunk_count(group[-1])
            if chunks >= goal or len(group) >= LARGEST_GROUP:
                yield group
                quick = time.monotonic() - started < QUICK_SECONDS
                goal = min(2 * goal, LARGEST_GROUP) if quick else max(goal // 2, FIRST_GROUP)
                group, chunks, started = [], 0, time.monotonic()
        if group:
            yield group

    def _with_infos(self) -> Iterator[tuple[Path, DocumentInfo | None]]:
        """Each file with what the ledger knows of its document."""
        for start in range(0, len(self.files), LOOK_AHEAD):
            paths = self.files[start : start + LOOK_AHEAD]
            ids = [self._doc_id(path) for path in paths]
            known = self.ports.ledger.infos([doc_id for doc_id in ids if doc_id])
            yield from ((path, known.get(doc_id)) for path, doc_id in zip(paths, ids, strict=True))

    def _doc_id(self, path: Path) -> str:
        try:
            return make_doc_id(self.options.source, path.relative_to(self.root).as_posix())
        except InvalidInput:
            return ""  # opening it will say what is wrong

    def _open(self, path: Path, known: DocumentInfo | None) -> FileResult | _Opened:
        """Read a file and cut it, or say why there is nothing to do."""
        name = str(path)
        doc_id: str | None = None
        try:
            doc_id = make_doc_id(self.options.source, path.relative_to(self.root).as_posix())
            self._claim(doc_id, path)
            document = self._document(doc_id, path)
        except LoadError as error:
            skipped = error.reason == "unsupported_format"
            outcome = FileOutcome.SKIPPED if skipped else FileOutcome.FAILED
            return FileResult(name, outcome, doc_id, reason=error.reason, detail=str(error))
        except InvalidInput as error:
            return FileResult(
                name, FileOutcome.FAILED, doc_id, reason=f"invalid_{error.field}", detail=str(error)
            )
        if known is not None and known.kb_scope != document.kb_scope:
            return FileResult(
                name,
                FileOutcome.FAILED,
                doc_id,
                reason="invalid_doc_id",
                detail=f"Document {doc_id!r} already stands in scope {known.kb_scope!r}. Ingest it "
                "under another source name, or delete it first.",
            )
        if (
            known is not None
            and known.state == "indexed"
            and known.content_hash == document.content_hash
            and not self.options.force
        ):
            return FileResult(name, FileOutcome.UNCHANGED, doc_id, known.chunk_count)
        whole = cut(document, self.ports.chunking)
        if not whole.chunks:
            return FileResult(
                name, FileOutcome.SKIPPED, doc_id, reason="empty", detail="It holds no text."
            )
        return _Opened(path, whole, new=known is None)

    def _claim(self, doc_id: str, path: Path) -> None:
        # Two names that differ only in Unicode form have one id: neither may win silently.
        other = self.seen.setdefault(doc_id, path)
        if other != path:
            raise InvalidInput(
                f"It has the same document id as {str(other)!r}.",
                field="doc_id",
                remedy="Rename one of them.",
            )

    def _document(self, doc_id: str, path: Path) -> Document:
        loaded = self.ports.load(path)
        text = normalise_text(loaded.text).text
        markdown = loaded.text_format == "markdown"
        front = split_front_matter(text) if markdown else FrontMatter()
        title = document_title(text, loaded.text_format, front) or path.stem
        fields = ("title", "category")
        metadata = {key: value for key, value in front.values.items() if key not in fields}
        document = Document(
            doc_id=doc_id,
            source=self.options.source,
            title=title,
            category=self._category(path, front.values.get("category")),
            kb_scope=self.options.kb_scope,
            text=text,
            text_format=loaded.text_format,
            content_hash="",
            metadata=metadata,
        )
        return replace(document, content_hash=content_hash(document, self.ports.chunking))

    def _category(self, path: Path, from_front_matter: object) -> str:
        if self.options.category is not None:
            return self.options.category
        folders = path.relative_to(self.root).parts[:-1]
        if self.options.category_from_folder and folders:
            return checked_filter(folders[0], field="category") or ""
        if isinstance(from_front_matter, str):
            return checked_filter(from_front_matter, field="category") or ""
        return ""

    # -- writing ----------------------------------------------------------------------------

    def write(
        self,
        group: list[FileResult | _Opened],
        should_stop: Callable[[], bool],
        on_progress: Callable[[IngestProgress], None],
    ) -> list[FileResult]:
        """Embed and write a group; the results of its files, fewer if stopped before their turn."""
        failed: dict[str, FileResult] = {}
        opened = [item for item in group if isinstance(item, _Opened)]
        vectors = Vectors(self.ports.embedder, self.ports.ledger)

        def refuse(name: str, error: EmbeddingError) -> set[str]:
            for item in opened:
                if name in item.cut.hashes:
                    failed[item.doc_id] = item.failed("embedding", error)
            needed = {n for o in opened if o.doc_id not in failed for n in o.cut.hashes}
            return {n for o in opened for n in o.cut.hashes} - needed

        self._report(on_progress, 0, 0.0)
        try:
            stopped = vectors.fill(
                {n: t for o in opened for n, t in zip(o.cut.hashes, o.cut.texts, strict=True)},
                keys={name: key for o in opened for name, key in o.cut.keys.items()},
                should_stop=should_stop,
                on_batch=lambda share: self._report(
                    on_progress, len(group), share, embedded=vectors.embedded
                ),
                refuse=refuse,
            )
        except EmbeddingError:
            self._replace(group[: _ready(group, vectors, failed)], vectors, failed)
            raise
        if stopped:
            self.stopped = True
            group = group[: _ready(group, vectors, failed)]
        self._replace(group, vectors, failed)
        self.embedded += vectors.embedded
        self.done += len(group)
        self._report(on_progress, 0, 0.0)
        return [
            failed.get(item.doc_id) or _indexed(item) if isinstance(item, _Opened) else item
            for item in group
        ]

    def _replace(
        self,
        group: Sequence[FileResult | _Opened],
        vectors: Vectors,
        failed: dict[str, FileResult],
    ) -> None:
        """Write what did not fail; what the index would refuse fails before anything is written."""
        writes = []
        for item in group:
            if not isinstance(item, _Opened) or item.doc_id in failed:
                continue
            chunks = item.cut.indexed(vectors.known)
            try:
                self.ports.index.check(chunks)
            except InvalidInput as error:
                failed[item.doc_id] = item.failed(f"invalid_{error.field}", error)
            else:
                writes.append(Write(item.cut.document, chunks, item.new))
        if writes:
            replace_documents(writes, self.ports.ledger, self.ports.index)
            self.written += sum(len(write.chunks) for write in writes)

    def _report(
        self,
        on_progress: Callable[[IngestProgress], None],
        at_hand: int,
        share: float,
        *,
        embedded: int = 0,
    ) -> None:
        """Tell how far it is: ``share`` of the ``at_hand`` files after the done ones, of whose
        chunks ``embedded`` are ready to be written."""
        before, after = self.bytes[self.done], self.bytes[self.done + at_hand]
        place = min(self.done, len(self.files) - 1)
        on_progress(
            IngestProgress(
                bytes_done=before + int(share * (after - before)),
                bytes_total=self.bytes[-1],
                files_done=self.done,
                files_total=len(self.files),
                chunks_done=self.written + embedded,
                path=str(self.files[place]),
            )
        )


def _chunk_count(item: FileResult | _Opened) -> int:
    return len(item.cut.chunks) if isinstance(item, _Opened) else 0


def _indexed(item: _Opened) -> FileResult:
    return FileResult(str(item.path), FileOutcome.INDEXED, item.doc_id, len(item.cut.chunks))


def _ready(
    group: Sequence[FileResult | _Opened], vectors: Vectors, failed: Mapping[str, FileResult]
) -> int:
    """How many of the first files of a group have all their vectors, or need none."""

    def waits(item: FileResult | _Opened) -> bool:
        if not isinstance(item, _Opened) or item.doc_id in failed:
            return False
        return not all(name in vectors.known for name in item.cut.hashes)

    return next((place for place, item in enumerate(group) if waits(item)), len(group))


def content_hash(document: Document, chunking: ChunkingOptions) -> str:
    """Hex SHA-256 of everything that decides a document's chunks and their fields."""
    fields = {**asdict(document), "content_hash": "", "metadata": dict(document.metadata)}
    payload = [CHUNKER_VERSION, asdict(chunking), fields]
    return text_hash(json.dumps(payload, sort_keys=True, ensure_ascii=False))


def _checked(options: IngestOptions) -> IngestOptions:
    scope = checked_filter(options.kb_scope, field="kb_scope")
    if scope is None:
        raise InvalidInput("kb_scope is blank.", field="kb_scope", remedy="Name a scope.")
    make_doc_id(options.source, "x")  # the source must be able to begin an id
    return replace(
        options, kb_scope=scope, category=checked_filter(options.category, field="category")
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # reading it will say what is wrong


def _verify(ports: IngestPorts, kb_scope: str) -> None:
    """Say done only after a read that sees every write finds what the ledger expects.

    Documents that the engine lost chunks of (a full disk does that without an error) go back to
    ``writing``, so that the next start writes them again.
    """
    infos = ports.ledger.documents(kb_scope=kb_scope)
    stored = ports.index.count(kb_scope=kb_scope)
    if stored == sum(info.chunk_count for info in infos):
        return
    lost = [i.doc_id for i in infos if ports.index.count(doc_id=i.doc_id) != i.chunk_count]
    ports.ledger.reopen_writes(lost)
    raise EngineError(
        f"The index holds {stored} chunks in scope {kb_scope!r}; the ledger expects "
        f"{sum(info.chunk_count for info in infos)}. {len(lost)} documents are not whole.",
        remedy="Check that the disk has room, then run the same command again: they are written "
        "anew at its start.",
    )
