"""Hold an index against what it should hold, both ways.

Every stored row is read once, in a stream: its id, document, scope, category, the hash stored
beside it and the hash of its text, made anew. What is expected is kept as 33 bytes a chunk, so
100,000 chunks take a few megabytes.

Nobody may write meanwhile, or what is just being written looks wrong. For the active generation
``pipelines.audit_active`` sees to that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from knowport.core.compose import text_hash
from knowport.core.identity import parse_evidence_key
from knowport.core.wording import counted
from knowport.errors import InvalidInput
from knowport.model import StoredRow
from knowport.pipelines.replace import Index

_DIGEST = 32  # bytes of a SHA-256
_TELL_EVERY = 1_000

FindingCode = Literal[
    "missing",
    "ghost",
    "wrong_hash",
    "duplicate",
    "wrong_scope",
    "wrong_category",
    "unfinished",
    "wrong_marks",
    "altered_text",
    "not_found_dense",
    "not_found_sparse",
]


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Something that is not as it should be.

    ``key`` is the id of the row it is about, '' where it is about the whole document.

    ``missing``          a chunk that is expected is not stored
    ``ghost``            a stored row that nothing is known of
    ``wrong_hash``       the stored text, or the hash stored beside it, is not the expected one
    ``duplicate``        one id is stored more than once
    ``wrong_scope``      the row stands in another scope than its document
    ``wrong_category``   the row has another category than its document
    ``unfinished``       an interrupted write or delete that nobody has finished
    ``wrong_marks``      the ledger has not as many hashes of the document as it has chunks
    ``altered_text``     the ledger's text is not the one that its content hash was made of
    ``not_found_dense``  a search by the chunk's own vector does not find it
    ``not_found_sparse`` a search by the chunk's own words does not find it
    """

    code: FindingCode
    doc_id: str
    key: str
    message: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit saw: documents expected, rows read, chunks searched for, and what is wrong."""

    findings: tuple[AuditFinding, ...]
    documents: int
    chunks: int
    probed: int = 0


@dataclass(frozen=True, slots=True)
class ExpectedDocument:
    """What a generation should hold of a document; ``hashes`` are those of its chunks' contents
    (hex SHA-256) by ``chunk_index``."""

    doc_id: str
    kb_scope: str
    category: str
    hashes: Sequence[str]


@dataclass(frozen=True, slots=True)
class AuditProgress:
    """How far an audit is; ``total`` is what was expected when the step began."""

    step: Literal["compare", "probe", "confirm", "repair"]
    done: int
    total: int


OnProgress = Callable[[AuditProgress], None]


def audit_index(
    index: Index,
    expected: Iterable[ExpectedDocument],
    *,
    on_progress: OnProgress = lambda _: None,
) -> AuditReport:
    """Compare all that an index holds with all that it should hold, while nobody else writes.

    For a generation that is being built as well as for the active one. Raises EngineError.
    """
    comparison = Comparison(expected)
    rows = 0
    for rows, row in enumerate(index.iter_rows(), start=1):
        comparison.take(row)
        if rows % _TELL_EVERY == 0:
            on_progress(AuditProgress("compare", rows, comparison.chunks))
    if index.count() != rows:
        comparison.count(index)
    return AuditReport(comparison.findings(), comparison.documents, rows)


def audit_documents(
    index: Index, doc_ids: Iterable[str], expected: Iterable[ExpectedDocument]
) -> tuple[AuditFinding, ...]:
    """The same for some documents; those that are not in ``expected`` should hold nothing."""
    comparison = Comparison(expected)
    for doc_id in doc_ids:
        for row in index.iter_rows(doc_id=doc_id):
            comparison.take(row)
        comparison.count(index, doc_id)
    return comparison.findings()


class _Held:
    """What is expected of a document, and what was seen of it."""

    __slots__ = ("category", "digests", "kb_scope", "rows", "seen")

    def __init__(self, expected: ExpectedDocument) -> None:
        self.kb_scope, self.category = expected.kb_scope, expected.category
        self.digests = b"".join(map(bytes.fromhex, expected.hashes))
        self.seen = bytearray(len(expected.hashes))
        self.rows = 0

    def digest(self, chunk: int) -> str:
        return self.digests[chunk * _DIGEST : (chunk + 1) * _DIGEST].hex()


class Comparison:
    """Takes stored rows in any order and says in the end what is wrong."""

    def __init__(self, expected: Iterable[ExpectedDocument]) -> None:
        self._held = {document.doc_id: _Held(document) for document in expected}
        self._ghosts: Counter[str] = Counter()
        self._found: list[tuple[int, AuditFinding]] = []

    @property
    def documents(self) -> int:
        return len(self._held)

    @property
    def chunks(self) -> int:
        """Chunks that are expected."""
        return sum(len(held.seen) for held in self._held.values())

    def take(self, row: StoredRow) -> None:
        """Hold one stored row against what is expected."""
        held = self._held.get(row.doc_id)
        if held is None:
            self._ghosts[row.doc_id] += 1
            return
        held.rows += 1
        chunk = _chunk_of(row)
        if chunk is None or chunk >= len(held.seen):
            self._find("ghost", row.doc_id, row.id, "The document has no such chunk.", chunk)
            return
        if held.seen[chunk]:
            self._find("duplicate", row.doc_id, row.id, "It is stored more than once.", chunk)
        held.seen[chunk] = 1
        for code, message in _differences(row, held, held.digest(chunk)):
            self._find(code, row.doc_id, row.id, message, chunk)

    def count(self, index: Index, doc_id: str | None = None) -> None:
        """Hold the engine's own count of a document (by default of each) against the rows taken.

        Some engines hand out one row of several with the same id, and count them all.
        """
        for name in self._held if doc_id is None else [doc_id]:
            held = self._held.get(name)
            if held is not None and (stored := index.count(doc_id=name)) > held.rows:
                message = f"{stored} rows are stored under {held.rows} ids."
                self._find("duplicate", name, "", message, None)

    def findings(self) -> tuple[AuditFinding, ...]:
        """Everything that is wrong, in order of document and chunk."""
        for doc_id, rows in self._ghosts.items():
            self._find("ghost", doc_id, "", f"No such document is known; {rows} rows of it.", None)
        for doc_id, held in self._held.items():
            absent = [chunk for chunk, seen in enumerate(held.seen) if not seen]
            if absent and len(absent) == len(held.seen):
                message = f"Nothing of it is stored, of {counted(len(absent), 'chunk')}."
                self._find("missing", doc_id, "", message, None)
                continue
            for chunk in absent:
                key = f"{doc_id}#chunk-{chunk}"
                self._find("missing", doc_id, key, "It is not stored.", chunk)
        ordered = sorted(self._found, key=lambda item: (item[1].doc_id, item[0], item[1].code))
        return tuple(finding for _, finding in ordered)

    def _find(
        self, code: FindingCode, doc_id: str, key: str, message: str, chunk: int | None
    ) -> None:
        place = -1 if chunk is None else chunk
        self._found.append((place, AuditFinding(code, doc_id, key, message)))


def _chunk_of(row: StoredRow) -> int | None:
    """The number of the chunk, or None where the id is not one of its document's."""
    try:
        doc_id, chunk = parse_evidence_key(row.id)
    except InvalidInput:
        return None
    return chunk if doc_id == row.doc_id else None


def _differences(row: StoredRow, held: _Held, digest: str) -> Iterator[tuple[FindingCode, str]]:
    if text_hash(row.content) != digest:
        yield "wrong_hash", "Its stored text is not that of the ledger's document."
    elif row.content_hash != digest:
        yield "wrong_hash", "The hash stored beside it is not that of its text."
    if row.kb_scope != held.kb_scope:
        yield (
            "wrong_scope",
            f"It stands in scope {row.kb_scope!r}, its document in {held.kb_scope!r}.",
        )
    if row.category != held.category:
        yield (
            "wrong_category",
            f"Its category is {row.category!r}, its document's is {held.category!r}.",
        )
