"""Make the index hold of a document what the ledger says: the whole of it, once, or nothing.

=================  ============================================================================
the ledger says    action, as the only writer
=================  ============================================================================
writing, indexed   write its text again, whole, and delete the tail
deleting           delete it again
nothing            delete its rows
=================  ============================================================================

Texts are cut and embedded before the lock is asked for. A document that is another one by the time
it is held has been written by a living writer, and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from knowport.core.chunking import ChunkingOptions
from knowport.errors import EmbeddingError, InvalidInput
from knowport.model import Document, Vector
from knowport.pipelines.replace import (
    SLICE_CHUNKS,
    CachedChunks,
    Index,
    Write,
    as_writer,
    check_chunks,
    cut,
    remove_document,
    write_documents,
)
from knowport.pipelines.vectors import Vectors
from knowport.ports import Embedder, Ledger

# Documents and chunks that are written together, so that nobody waits long for the lock.
GROUP_DOCUMENTS, GROUP_CHUNKS = 50, 500


@dataclass(frozen=True, slots=True)
class MendPorts:
    """``index`` is the generation of that name, and ``chunking`` is how its texts are cut."""

    embedder: Embedder
    ledger: Ledger
    index: Index
    generation: str
    chunking: ChunkingOptions


@dataclass(slots=True)
class Mended:
    """Documents that were written again, those whose rows were deleted, and those that cannot be
    written, with the reason."""

    rewritten: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def mend(
    doc_ids: Sequence[str],
    ports: MendPorts,
    *,
    needed: Callable[[str], bool] = lambda _: True,
    afresh: Collection[str] = (),
    on_progress: Callable[[int], None] = lambda _: None,
) -> Mended:
    """Mend documents, group by group; ``on_progress`` hears how many are done.

    ``needed`` is asked again about a document when nobody else writes any more. Those in
    ``afresh`` are deleted before they are written, because an upsert does not cure them. Raises
    EmbeddingError, EngineError, LedgerError or GenerationChanged; what was mended until then stays.
    """
    mended, done = Mended(), 0
    for group in _groups(doc_ids, ports.ledger):
        ready = _ready(group, ports, mended.refused)
        with as_writer(ports.ledger, ports.generation):
            wanted = [doc_id for doc_id in group if needed(doc_id)]
            _mend(wanted, ready, afresh, ports, mended)
        done += len(group)
        on_progress(done)
    return mended


def _groups(doc_ids: Sequence[str], ledger: Ledger) -> Iterator[list[str]]:
    group: list[str] = []
    chunks = 0
    for start in range(0, len(doc_ids), GROUP_DOCUMENTS):
        some = doc_ids[start : start + GROUP_DOCUMENTS]
        infos = ledger.infos(some)
        for doc_id in some:
            group.append(doc_id)
            chunks += infos[doc_id].chunk_count if doc_id in infos else 0
            if len(group) == GROUP_DOCUMENTS or chunks >= GROUP_CHUNKS:
                yield group
                group, chunks = [], 0
    if group:
        yield group


def _ready(group: Sequence[str], ports: MendPorts, refused: dict[str, str]) -> dict[str, Write]:
    """The documents of a group as they would be written; those that cannot be are ``refused``."""
    ready = {}
    for info in ports.ledger.infos(group).values():
        document = ports.ledger.document_text(info.doc_id)
        if info.state == "deleting" or document is None:
            continue
        try:
            ready[info.doc_id] = _prepared(document, ports)
        except (EmbeddingError, InvalidInput) as error:
            if isinstance(error, EmbeddingError) and error.position is None:
                raise
            refused[info.doc_id] = str(error)
    return ready


def _prepared(document: Document, ports: MendPorts) -> Write:
    """A document whose vectors are all in the cache. Raises EmbeddingError, InvalidInput."""
    whole = cut(document, ports.chunking)
    for start in range(0, len(whole.chunks), SLICE_CHUNKS):
        part = slice(start, start + SLICE_CHUNKS)
        texts = dict(zip(whole.hashes[part], whole.texts[part], strict=True))
        Vectors(ports.embedder, ports.ledger).fill(texts, keys=whole.keys(part))

    def cached(hashes: Sequence[str]) -> Mapping[str, Vector]:
        return ports.ledger.cached_vectors(ports.embedder.identity, hashes)

    write = Write(document, CachedChunks(whole, cached))
    check_chunks(write, ports.index)
    return write


def _mend(
    doc_ids: Sequence[str],
    ready: Mapping[str, Write],
    afresh: Collection[str],
    ports: MendPorts,
    mended: Mended,
) -> None:
    """Mend a group as the only writer."""
    ledger, index = ports.ledger, ports.index
    infos = ledger.infos(doc_ids)
    writes = []
    for doc_id in doc_ids:
        info, write = infos.get(doc_id), ready.get(doc_id)
        if info is None:
            index.delete_by_doc_id(doc_id)
            mended.deleted.append(doc_id)
        elif info.state == "deleting":
            remove_document(doc_id, ledger, index)
            mended.deleted.append(doc_id)
        elif write is not None and write.document.content_hash == info.content_hash:
            writes.append(write)
            if doc_id in afresh:
                ledger.reopen_writes([doc_id])  # or a crash after the deletion would be forgotten
                index.delete_by_doc_id(doc_id)
    if writes:
        write_documents(writes, ledger, index, generation=ports.generation)
        mended.rewritten.extend(write.document.doc_id for write in writes)
