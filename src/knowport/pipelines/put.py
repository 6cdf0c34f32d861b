"""One document into the index or out of it, for callers that have it at hand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from knowport.errors import EngineError, GenerationChanged, LoadError
from knowport.model import Document, DocumentInfo, FileOutcome, FileResult, LoadedFile
from knowport.pipelines.documents import Origin, build_document, file_key
from knowport.pipelines.ingest_ports import IngestPorts
from knowport.pipelines.replace import (
    Write,
    as_writer,
    check_chunks,
    cut,
    delete_document,
    is_current,
    refuse_other_scope,
    touch_files,
    write_documents,
)
from knowport.pipelines.retry import with_retries
from knowport.pipelines.vectors import Vectors

T = TypeVar("T")
PortsNow = Callable[[], IngestPorts]

# More switches of the generation than this during one write are no accident.
MAX_SWITCHES = 5


def put_text(loaded: LoadedFile, origin: Origin, ports: PortsNow) -> FileResult:
    """Bring a text into the index, over an older version of it; safe in several threads.

    ``ports`` gives the present ones, and is asked again when the generation is switched
    meanwhile. The outcome is ``indexed`` (reason ``new`` or ``changed``) or ``unchanged``. Raises
    InvalidInput, LoadError (reason ``empty``) for a text without words, EmbeddingError,
    EngineError or LedgerError; the older version then stays.
    """
    return through_switches(_Put(build_document(loaded, origin)), ports)


def put_file(data: bytes, name: str, origin: Origin, ports: PortsNow) -> FileResult:
    """``put_text`` for the bytes of a file of that name; known bytes are not parsed again.

    Raises LoadError also for what cannot be read as a document.
    """
    now = ports()
    key = file_key(hashlib.sha256(data).hexdigest(), origin, now.loader_version)
    known = now.ledger.document(origin.doc_id)
    if known is not None and known.state == "indexed" and known.file_hash == key:
        return _unchanged(known)
    document = build_document(now.load_bytes(data, name), origin, file_hash=key)
    return through_switches(_Put(document), ports)


def delete_present(doc_id: str, ports: PortsNow) -> int:
    """Delete a document; returns how many chunks went.

    Raises UnknownDocument, EngineError or LedgerError.
    """
    return through_switches(
        lambda now: with_retries(
            lambda: delete_document(doc_id, now.ledger, now.index, generation=now.generation)
        ),
        ports,
    )


def through_switches(call: Callable[[IngestPorts], T], ports: PortsNow) -> T:
    """What ``call`` makes of the present ports; called anew when the generation is switched."""
    for _ in range(MAX_SWITCHES):
        try:
            return call(ports())
        except GenerationChanged:
            continue
    return call(ports())


class _Put:
    """Puts a document; to be called anew with the present ports when the generation is switched.

    A switch takes over what was written, or half written, by then. So what was once begun is told
    as written, also where there is nothing left to write.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._reason = ""

    def __call__(self, ports: IngestPorts) -> FileResult:
        document, ledger = self._document, ports.ledger
        known = ledger.document(document.doc_id)
        refuse_other_scope(document, known)
        if known is not None and is_current(known, document):
            if known.file_hash != document.file_hash:
                touch_files([document], ledger, generation=ports.generation)
            if not self._reason:
                return _unchanged(known)
            return self._written(ports, known.chunk_count)
        write = _ready(document, ports)
        reason = "new" if known is None else "changed"
        with_retries(lambda: self._write(write, reason, ports))
        return self._written(ports, len(write.chunks))

    def _write(self, write: Write, reason: str, ports: IngestPorts) -> None:
        with as_writer(ports.ledger, ports.generation):
            self._reason = self._reason or reason
            write_documents([write], ports.ledger, ports.index, generation=ports.generation)

    def _written(self, ports: IngestPorts, chunks: int) -> FileResult:
        doc_id = self._document.doc_id
        _verify(doc_id, ports)
        return FileResult(doc_id, FileOutcome.INDEXED, doc_id, chunks, self._reason)


def _ready(document: Document, ports: IngestPorts) -> Write:
    """A document with its vectors. Raises LoadError, EmbeddingError or InvalidInput."""
    whole = cut(document, ports.chunking)
    if not whole.chunks:
        raise LoadError(
            f"Document {document.doc_id!r} holds no text.",
            reason="empty",
            remedy="An older version stays as it is; delete it if it is to go.",
        )
    vectors = Vectors(ports.embedder, ports.ledger)
    vectors.fill(dict(zip(whole.hashes, whole.texts, strict=True)), keys=whole.keys())
    write = Write(document, whole.indexed(vectors.known))
    check_chunks(write, ports.index)
    return write


def _unchanged(known: DocumentInfo) -> FileResult:
    return FileResult(known.doc_id, FileOutcome.UNCHANGED, known.doc_id, known.chunk_count)


def _verify(doc_id: str, ports: IngestPorts) -> None:
    """Say done only after a read that sees every write; a full disk loses chunks silently."""
    with as_writer(ports.ledger, ports.generation):
        info = ports.ledger.document(doc_id)
        if info is None or info.state == "deleting":  # another one has deleted it
            return
        if ports.index.count(doc_id=doc_id) == info.chunk_count:
            return
        ports.ledger.reopen_writes([doc_id])
    raise EngineError(
        f"The index does not hold document {doc_id!r} whole.",
        remedy="Check that the disk of the index has room, then put the document again.",
    )
