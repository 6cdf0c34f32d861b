"""Audit the active generation while others read and write, and repair it from the ledger.

A row that is wrong and a row that is just being written look alike. So everything is compared and
searched for without stopping anyone; then the documents that something is to be said of are asked
about again as the only writer, a few at a time, and only what is wrong even then is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from knowport.core.compose import content_hash
from knowport.errors import GenerationChanged
from knowport.model import ChunkMark, DocumentInfo, IndexedChunk
from knowport.pipelines.audit import (
    AuditFinding,
    AuditProgress,
    AuditReport,
    ExpectedDocument,
    OnProgress,
    audit_documents,
    audit_index,
)
from knowport.pipelines.mend import MendPorts, mend
from knowport.pipelines.probe import made_anew, probe, sampled
from knowport.pipelines.replace import as_writer
from knowport.ports import Ledger

_T = TypeVar("_T")

DEFAULT_SAMPLE = 50
_READ = 200  # documents that are asked of the ledger at once
_CONFIRM = 20  # documents that are asked about while writers wait
# What an upsert alone may not cure.
_AFRESH = {"duplicate", "ghost", "not_found_dense", "not_found_sparse"}


@dataclass(frozen=True, slots=True)
class RepairReport:
    """An audit, what was done about it, and an audit after that.

    ``refused`` are documents that cannot be written again, by id, with the reason.
    """

    before: AuditReport
    after: AuditReport
    rewritten: Sequence[str]
    deleted: Sequence[str]
    refused: Mapping[str, str]


def audit(
    ports: MendPorts,
    *,
    lexical: bool,
    sample: int | None = DEFAULT_SAMPLE,
    on_progress: OnProgress = lambda _: None,
) -> AuditReport:
    """Audit all scopes of the active generation, and search for ``sample`` of its chunks (None:
    for all). ``lexical`` says whether it has a BM25 field.

    Raises EngineError, EmbeddingError, LedgerError, or GenerationChanged where another generation
    becomes the active one meanwhile.
    """
    counts: dict[str, int] = {}
    suspects: set[str] = set()

    def expected() -> Iterator[ExpectedDocument]:
        for info, document in _expected(ports.ledger):
            counts[info.doc_id] = len(document.hashes)
            differs = info.state != "indexed" or info.chunk_count != len(document.hashes)
            if differs or any(_altered_text(info, ports.ledger)):
                suspects.add(info.doc_id)
            yield document

    compared = audit_index(ports.index, expected(), on_progress=on_progress)
    suspects |= {finding.doc_id for finding in compared.findings}
    chosen, probed = sampled(counts, sample), 0
    total = sum(map(len, chosen.values()))
    for doc_id, numbers in chosen.items():
        chunks = _chunks(doc_id, numbers, ports)
        suspects |= {finding.doc_id for finding in probe(ports.index, chunks, lexical=lexical)}
        probed += len(chunks)
        on_progress(AuditProgress("probe", probed, total))
    findings: list[AuditFinding] = []
    for done, group in _pages(sorted(suspects), _CONFIRM):
        findings += _confirmed(group, chosen, ports, lexical=lexical)
        on_progress(AuditProgress("confirm", done, len(suspects)))
    active = ports.ledger.active_generation()
    if active is None or active.name != ports.generation:
        raise GenerationChanged(
            f"Generation {ports.generation} stopped being the active one during its audit.",
            remedy="Audit again.",
        )
    return replace(compared, findings=tuple(findings), probed=probed)


def repair(
    before: AuditReport,
    ports: MendPorts,
    *,
    lexical: bool,
    sample: int | None = DEFAULT_SAMPLE,
    on_progress: OnProgress = lambda _: None,
) -> RepairReport:
    """Mend each document that ``before`` has a finding of, and audit again; raises as ``audit``.

    One whose text was altered is left as it is: there is nothing here to mend it from.
    """
    altered = {finding.doc_id for finding in before.findings if finding.code == "altered_text"}
    doc_ids = sorted({finding.doc_id for finding in before.findings} - altered)
    mended = mend(
        doc_ids,
        ports,
        afresh={finding.doc_id for finding in before.findings if finding.code in _AFRESH},
        on_progress=lambda done: on_progress(AuditProgress("repair", done, len(doc_ids))),
    )
    after = audit(ports, lexical=lexical, sample=sample, on_progress=on_progress)
    return RepairReport(before, after, mended.rewritten, mended.deleted, mended.refused)


def _expected(
    ledger: Ledger, doc_ids: Sequence[str] | None = None
) -> Iterator[tuple[DocumentInfo, ExpectedDocument]]:
    """What the ledger says of documents, by default of all."""
    infos = ledger.documents() if doc_ids is None else ledger.infos(doc_ids).values()
    for _, page in _pages(list(infos), _READ):
        marks = ledger.marks([info.doc_id for info in page])
        for info in page:
            yield info, _document(info, marks.get(info.doc_id, ()))


def _document(info: DocumentInfo, marks: Sequence[ChunkMark]) -> ExpectedDocument:
    hashes = tuple(mark.content_hash for mark in marks)
    return ExpectedDocument(info.doc_id, info.kb_scope, info.category, hashes)


def _confirmed(
    doc_ids: Sequence[str],
    chosen: Mapping[str, Sequence[int]],
    ports: MendPorts,
    *,
    lexical: bool,
) -> list[AuditFinding]:
    """What is wrong with documents while nobody else writes."""
    findings: list[AuditFinding] = []
    with as_writer(ports.ledger, ports.generation):
        expected = []
        to_compare = set(doc_ids)
        for info, document in _expected(ports.ledger, doc_ids):
            if info.state == "indexed":
                expected.append(document)
                findings += _wrong_marks(info, document)
                findings += _altered_text(info, ports.ledger)
            else:
                to_compare.remove(info.doc_id)
                message = f"It is half done ({info.state}), and nobody is at it."
                findings.append(AuditFinding("unfinished", info.doc_id, "", message))
        findings += audit_documents(ports.index, sorted(to_compare), expected)
        for doc_id in sorted(to_compare - {finding.doc_id for finding in findings}):
            chunks = _chunks(doc_id, chosen.get(doc_id, ()), ports)
            findings += probe(ports.index, chunks, lexical=lexical)
    return sorted(findings, key=lambda finding: finding.doc_id)


def _wrong_marks(info: DocumentInfo, document: ExpectedDocument) -> Iterator[AuditFinding]:
    if info.chunk_count != len(document.hashes):
        message = f"The ledger has {len(document.hashes)} hashes of {info.chunk_count} chunks."
        yield AuditFinding("wrong_marks", info.doc_id, "", message)


def _chunks(doc_id: str, numbers: Sequence[int], ports: MendPorts) -> list[IndexedChunk]:
    """Chunks of a document as they should be stored."""
    document = ports.ledger.document_text(doc_id) if numbers else None
    if document is None:
        return []
    marks = ports.ledger.marks([doc_id]).get(doc_id, ())
    return made_anew(document, numbers, marks, ports.chunking, ports.embedder, ports.ledger)


def _pages(items: Sequence[_T], size: int) -> Iterator[tuple[int, Sequence[_T]]]:
    """Slices of a sequence, each with the number of items up to its end."""
    for start in range(0, len(items), size):
        yield min(start + size, len(items)), items[start : start + size]


def _altered_text(info: DocumentInfo, ledger: Ledger) -> Iterator[AuditFinding]:
    document = ledger.document_text(info.doc_id)
    if document is not None and content_hash(document) != document.content_hash:
        message = (
            "The ledger's text is not the one it was given: ingest its file again with --force."
        )
        yield AuditFinding("altered_text", info.doc_id, "", message)
