"""From files to an index: load, chunk, embed what is new, replace.

A document is replaced so that a reader sees the old or the new: its vectors are made first, then
the ledger records the new text as ``writing``, the new chunks are upserted over the old, the tail
of a longer old version is deleted, and the ledger says ``indexed``. What an interruption leaves
in ``writing`` or ``deleting`` is finished by ``recover`` at the next start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from knowport.core.chunking import ChunkingOptions, chunk_document, document_title
from knowport.core.compose import search_text, text_hash
from knowport.core.filter_values import checked_filter
from knowport.core.front_matter import FrontMatter, split_front_matter
from knowport.core.identity import evidence_key, make_doc_id
from knowport.core.text import normalise_text
from knowport.errors import EmbeddingError, EngineError, InvalidInput, LoadError, UnknownDocument
from knowport.model import (
    Chunk,
    Document,
    DocumentInfo,
    FileOutcome,
    FileResult,
    IndexedChunk,
    IngestProgress,
    IngestReport,
    LoadedFile,
    Vector,
)
from knowport.ports import Embedder, KnowledgeSearchPort, KnowledgeWritePort, Ledger

# Part of every content hash: a change in how chunks are cut makes every document new.
CHUNKER_VERSION = 1


class Index(KnowledgeSearchPort, KnowledgeWritePort, Protocol):
    """A generation that can be read and written."""


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
    files and between embedding batches; the document at hand then stays as it was. Raises
    InvalidInput for the root or the options, and EngineError, EmbeddingError or LedgerError where
    going on makes no sense; what was finished until then stays.
    """
    started = time.monotonic()
    options = _checked(options)
    files = list(ports.find(root))
    sizes = [_size(path) for path in files]
    total, done = sum(sizes), 0
    run = _Run(ports, options, root if root.is_dir() else root.parent, should_stop)
    results: list[FileResult] = []
    for position, path in enumerate(files):

        def report(
            share: float, done: int = done, position: int = position, path: Path = path
        ) -> None:
            on_progress(
                IngestProgress(
                    bytes_done=done + int(share * sizes[position]),
                    bytes_total=total,
                    files_done=position,
                    files_total=len(files),
                    chunks_done=run.embedded + run.reused,
                    path=str(path),
                )
            )

        report(0.0)
        try:
            results.append(run.file(path, report))
        except _Stopped:
            break
        report(1.0)
        done += sizes[position]
    if run.written:
        _verify(ports, options.kb_scope)
    return IngestReport(
        files=results,
        chunks_written=run.written,
        chunks_embedded=run.embedded,
        seconds=time.monotonic() - started,
        interrupted=len(results) < len(files),
    )


class _Stopped(Exception):
    """The caller asked to stop."""


class _Run:
    """The state of one ingest: what it has seen and counted."""

    def __init__(
        self,
        ports: IngestPorts,
        options: IngestOptions,
        root: Path,
        should_stop: Callable[[], bool],
    ) -> None:
        self.ports, self.options, self.root = ports, options, root
        self.should_stop = should_stop
        self.seen: dict[str, Path] = {}
        self.written = self.embedded = self.reused = 0

    def file(self, path: Path, report: Callable[[float], None]) -> FileResult:
        """Bring in one file; raises _Stopped."""
        if self.should_stop():
            raise _Stopped
        name = str(path)
        doc_id: str | None = None
        try:
            doc_id = make_doc_id(self.options.source, path.relative_to(self.root).as_posix())
            self._claim(doc_id, path)
            document = self._document(doc_id, path)
            known = self.ports.ledger.document(doc_id)
            if known is not None and known.kb_scope != document.kb_scope:
                raise InvalidInput(
                    f"Document {doc_id!r} already stands in scope {known.kb_scope!r}.",
                    field="doc_id",
                    remedy="Ingest it under another source name, or delete it first.",
                )
            if (
                known is not None
                and known.state == "indexed"
                and known.content_hash == document.content_hash
                and not self.options.force
            ):
                return FileResult(name, FileOutcome.UNCHANGED, doc_id, known.chunk_count)
            chunks = _chunks(document, self.ports.chunking)
            if not chunks:
                return FileResult(
                    name, FileOutcome.SKIPPED, doc_id, reason="empty", detail="It holds no text."
                )
            vectors = self._vectors(chunks, report)
            self._replace(document, chunks, vectors, known)
        except LoadError as error:
            skipped = error.reason == "unsupported_format"
            outcome = FileOutcome.SKIPPED if skipped else FileOutcome.FAILED
            return FileResult(name, outcome, doc_id, reason=error.reason, detail=str(error))
        except InvalidInput as error:
            return FileResult(
                name, FileOutcome.FAILED, doc_id, reason=f"invalid_{error.field}", detail=str(error)
            )
        except EmbeddingError as error:
            if error.position is None:  # not this text is to blame: the next would fail as well
                raise
            return FileResult(
                name, FileOutcome.FAILED, doc_id, reason="embedding", detail=str(error)
            )
        self.written += len(chunks)
        return FileResult(name, FileOutcome.INDEXED, doc_id, len(chunks))

    def _replace(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: Sequence[Vector],
        known: DocumentInfo | None,
    ) -> None:
        ledger, doc_id = self.ports.ledger, document.doc_id
        before = ledger.document_text(doc_id) if known else None
        try:
            replace_document(document, chunks, vectors, ledger, self.ports.index, new=not known)
        except InvalidInput:
            # The index refused it before it wrote anything. The ledger goes back as well: left in
            # `writing` it would be tried, and refused, at every start.
            if known and before:
                ledger.begin_write(before, known.chunk_count)
                ledger.commit_write(doc_id)
            else:
                ledger.commit_delete(doc_id)
            raise

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

    def _vectors(self, chunks: Sequence[Chunk], report: Callable[[float], None]) -> list[Vector]:
        """One vector for each chunk, from the cache or the embedder, in small batches."""
        embedder, ledger = self.ports.embedder, self.ports.ledger
        texts = {text_hash(text): text for text in map(search_text, chunks)}
        known = dict(ledger.cached_vectors(embedder.identity, list(texts)))
        missing = [name for name in texts if name not in known]
        self.reused += len(chunks) - len(missing)
        for start in range(0, len(missing), embedder.batch_size):
            if self.should_stop():
                raise _Stopped
            batch = missing[start : start + embedder.batch_size]
            try:
                matrix = embedder.embed_documents([texts[name] for name in batch])
            except EmbeddingError as error:
                place = error.position or 0
                where = "" if error.position is not None else "In the batch from "
                error.message = f"{where}{_key_of(chunks, batch[place])}: {error.message}"
                raise
            new = dict(zip(batch, matrix, strict=True))
            ledger.store_vectors(embedder.identity, new)
            known.update(new)
            self.embedded += len(batch)
            report((start + len(batch)) / len(missing))
        return [known[text_hash(search_text(chunk))] for chunk in chunks]


def replace_document(
    document: Document,
    chunks: Sequence[Chunk],
    vectors: Sequence[Vector],
    ledger: Ledger,
    index: Index,
    *,
    new: bool,
) -> None:
    """Write a document over its older version; ``new`` promises that there is none."""
    ledger.begin_write(document, len(chunks))
    index.upsert_chunks(
        [
            IndexedChunk(
                chunk=chunk,
                source=document.source,
                category=document.category,
                kb_scope=document.kb_scope,
                content_hash=text_hash(chunk.content),
                search_text=search_text(chunk),
                vector=vector,
                metadata=document.metadata,
            )
            for chunk, vector in zip(chunks, vectors, strict=True)
        ]
    )
    if not new:
        index.delete_by_doc_id(document.doc_id, from_index=len(chunks))
    ledger.commit_write(document.doc_id)


def delete_document(doc_id: str, ledger: Ledger, index: KnowledgeWritePort) -> int:
    """Delete a document; returns how many chunks went. Raises UnknownDocument."""
    if ledger.document(doc_id) is None:
        raise UnknownDocument(
            f"No document has the id {doc_id!r}.", remedy="See `knowport documents list`."
        )
    ledger.begin_delete(doc_id)
    removed = index.delete_by_doc_id(doc_id)
    ledger.commit_delete(doc_id)
    return removed


def recover(ports: IngestPorts) -> int:
    """Finish what was interrupted; returns the number of documents finished.

    ========  ================================================================
    state     action
    ========  ================================================================
    writing   write the ledger's text again, whole, and delete the tail; delete a document that
              the index refuses, which the next ingest of its file will report
    deleting  delete again
    ========  ================================================================
    """
    unfinished = ports.ledger.unfinished()
    for info in unfinished:
        if info.state == "deleting":
            delete_document(info.doc_id, ports.ledger, ports.index)
            continue
        document = ports.ledger.document_text(info.doc_id)
        if document is None:  # deleted by another process meanwhile
            continue
        chunks = _chunks(document, ports.chunking)
        run = _Run(ports, IngestOptions(document.source, document.kb_scope), Path(), bool)
        vectors = run._vectors(chunks, lambda _: None)
        try:
            replace_document(document, chunks, vectors, ports.ledger, ports.index, new=False)
        except InvalidInput:
            delete_document(info.doc_id, ports.ledger, ports.index)
    return len(unfinished)


def content_hash(document: Document, chunking: ChunkingOptions) -> str:
    """Hex SHA-256 of everything that decides a document's chunks and their fields."""
    fields = {**asdict(document), "content_hash": "", "metadata": dict(document.metadata)}
    payload = [CHUNKER_VERSION, asdict(chunking), fields]
    return text_hash(json.dumps(payload, sort_keys=True, ensure_ascii=False))


def _chunks(document: Document, chunking: ChunkingOptions) -> tuple[Chunk, ...]:
    return chunk_document(
        document.doc_id, document.text, document.text_format, document.title, chunking
    )


def _key_of(chunks: Sequence[Chunk], name: str) -> str:
    chunk = next(chunk for chunk in chunks if text_hash(search_text(chunk)) == name)
    return evidence_key(chunk.doc_id, chunk.chunk_index, "", 0)


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
    """Say done only after a read that sees every write finds what the ledger expects."""
    expected = sum(info.chunk_count for info in ports.ledger.documents(kb_scope=kb_scope))
    stored = ports.index.count(kb_scope=kb_scope)
    if stored != expected:
        raise EngineError(
            f"The index holds {stored} chunks in scope {kb_scope!r}; {expected} were written.",
            remedy="Run the ingest again with --force.",
        )
