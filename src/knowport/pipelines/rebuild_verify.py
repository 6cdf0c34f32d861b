"""Prove a generation before it is switched to.

    compare   every stored row against what was built, both ways           (pipelines.audit)
    search    sampled chunks by their own vectors and their own words      (pipelines.probe)
    words     sampled chunks by one of their words, in the new and in the active generation: by
              its whole text a chunk is found under any analyzer that treats both alike, by a word
              inside a sentence, written in the other case, it is not
    judge     whatever the caller compares, such as labelled queries       (rebuild_sides)

Only the rebuild writes to the generation, and it does not write meanwhile. Documents that are
changed or deleted meanwhile are left out; the switch replays them.

An active generation that is damaged must not stop the rebuild that replaces it. Where it cannot be
searched and the new one can, nothing is compared with it, and the report says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import regex

from knowport.core.evidence_map import Fate, fates
from knowport.core.query import normalise_query
from knowport.core.terms import query_terms
from knowport.errors import EngineError
from knowport.model import DocumentInfo, IndexedChunk, Metadata, SearchRequest, Term, TermKind
from knowport.pipelines.audit import AuditFinding, AuditProgress, ExpectedDocument, audit_index
from knowport.pipelines.probe import made_anew, probe, sampled
from knowport.pipelines.rebuild_ports import Collection, OnProgress, RebuildProgress, Target
from knowport.ports import Ledger

SAMPLE = 200
# A word that brings a document among so many hits, the width of a lookup, says something of it;
# among so many it has to be found at all, however chunks are cut.
WIDTH, WIDE = 20, 1_000
HAN_RUN = 6
# The share of them that may be lost.
WORDS_TOLERANCE = 0.05
_SHOWN = 20
_READ = 200
_HAN = regex.compile(r"\p{Han}{2,}")


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found out: sentences that speak against the switch, ids of the documents that are
    not as they should be, and figures. ``unread`` says why the active generation cannot be
    searched, '' where it can or was not to be."""

    failures: tuple[str, ...]
    damaged: tuple[str, ...]
    report: Metadata
    unread: str = ""


def prove(
    target: Target,
    active: Collection | None,
    ledger: Ledger,
    *,
    sample: int = SAMPLE,
    on_progress: OnProgress = lambda _: None,
) -> Proof:
    """Prove a generation; ``active`` is None where the active one cannot be searched by words.

    Raises EngineError, EmbeddingError or LedgerError.
    """
    built = ledger.built(target.name)
    counts: dict[str, int] = {}
    audit = audit_index(
        target.index,
        _expected(ledger, target.name, counts),
        on_progress=lambda now: on_progress(_compare(now)),
    )
    findings, searched_for = list(audit.findings), 0
    lexical = target.generation.lexical
    words = _Words(target.index, active if lexical else None)
    chosen = sampled(counts, sample)
    total = sum(map(len, chosen.values()))
    for doc_id, numbers in chosen.items():
        on_progress(RebuildProgress("search", searched_for, total))
        chunks = _chunks(doc_id, numbers, built.get(doc_id), target, ledger)
        findings += probe(target.index, chunks, lexical=lexical)
        words.take(chunks)
        searched_for += len(chunks)
    meanwhile = built.keys() - {info.doc_id for info in _current(ledger, target.name)}
    findings = [finding for finding in findings if finding.doc_id not in meanwhile]
    failures = [*_said_of(findings), *_said_of_words(words.counts)]
    report = {
        "documents": len(counts),
        "chunks": sum(counts.values()),
        "changed_meanwhile": len(meanwhile),
        "searched_for": searched_for,
        "findings": len(findings),
        "first_findings": [asdict(finding) for finding in findings[:_SHOWN]],
        "found_by_words": {script: dict(found) for script, found in words.counts.items()},
        "evidence_keys": _fates([d for d in counts if d not in meanwhile], target.name, ledger),
    }
    damaged = dict.fromkeys(finding.doc_id for finding in findings)
    return Proof(tuple(failures), tuple(damaged), report, words.unread)


def behind(ledger: Ledger, generation: str) -> frozenset[str]:
    """Ids of the documents that a generation and the active one do not hold in one version."""
    known = {info.doc_id for info in ledger.documents()}
    same = {info.doc_id for info in _current(ledger, generation) if info.state == "indexed"}
    return frozenset((known | ledger.built(generation).keys()) - same)


def _compare(now: AuditProgress) -> RebuildProgress:
    return RebuildProgress("compare", now.done, now.total)


def _current(ledger: Ledger, generation: str) -> list[DocumentInfo]:
    """Documents that are still what was built of them."""
    built = ledger.built(generation)
    return [info for info in ledger.documents() if built.get(info.doc_id) == info.content_hash]


def _expected(
    ledger: Ledger, generation: str, counts: dict[str, int]
) -> Iterator[ExpectedDocument]:
    """What is built of documents that are still what they were; ``counts`` gets how many chunks
    each has."""
    infos = _current(ledger, generation)
    for start in range(0, len(infos), _READ):
        page = infos[start : start + _READ]
        marks = ledger.built_marks(generation, [info.doc_id for info in page])
        for info in page:
            hashes = tuple(mark.content_hash for mark in marks[info.doc_id])
            counts[info.doc_id] = len(hashes)
            yield ExpectedDocument(info.doc_id, info.kb_scope, info.category, hashes)


def _chunks(
    doc_id: str, numbers: Sequence[int], built: str | None, target: Target, ledger: Ledger
) -> list[IndexedChunk]:
    """Chunks of a document as they should be stored; none where it is not the version that was
    built any more, be it only that its title is another."""
    document = ledger.document_text(doc_id)
    if document is None or document.content_hash != built:
        return []
    marks = ledger.built_marks(target.name, [doc_id]).get(doc_id, ())
    return made_anew(document, numbers, marks, target.chunking, target.embedder, ledger)


def _fates(doc_ids: Sequence[str], generation: str, ledger: Ledger) -> dict[str, int]:
    """How many evidence keys of now will stand for the same text, and where that of others will
    be."""
    counts: Counter[Fate] = Counter()
    for start in range(0, len(doc_ids), _READ):
        page = doc_ids[start : start + _READ]
        old, new = ledger.marks(page), ledger.built_marks(generation, page)
        for doc_id in page:
            counts += fates(old.get(doc_id, ()), new.get(doc_id, ()))
    return {fate.value: counts[fate] for fate in Fate if counts[fate]}


def _said_of(findings: Sequence[AuditFinding]) -> Iterator[str]:
    by_code: dict[str, list[AuditFinding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    for code, found in sorted(by_code.items()):
        first = found[0]
        yield f"{len(found)} times {code}, first {first.key or first.doc_id}: {first.message}"


# -- words ----------------------------------------------------------------------------------------


class _Words:
    """Counts by script how many chunks' documents the active generation finds by one of their words
    (``active``), and how many of those the new one finds at all (``new``).

    ``unread`` says why the active one cannot be searched; then nothing is counted.
    """

    def __init__(self, index: Collection, active: Collection | None) -> None:
        self._index, self._active = index, active
        self.counts: dict[str, Counter[str]] = {}
        self.unread = ""

    def take(self, chunks: Iterable[IndexedChunk]) -> None:
        for chunk in chunks:
            for script, word in words_of(chunk.chunk.content).items():
                if self._active is not None:
                    self._look_up(self._active, script, word, chunk)

    def _look_up(self, active: Collection, script: str, word: str, chunk: IndexedChunk) -> None:
        found = _found_in(active, self._index, word, chunk)
        if isinstance(found, EngineError):
            self._active, self.counts, self.unread = None, {}, found.message
            return
        counts = self.counts.setdefault(script, Counter(active=0, new=0))
        if found:
            counts["active"] += 1
            counts["new"] += any(_finds(self._index, word, chunk, k) for k in (WIDTH, WIDE))


def _found_in(
    active: Collection, index: Collection, word: str, chunk: IndexedChunk
) -> bool | EngineError:
    """Whether the active generation finds it, or its error, where it fails again and the new one
    does not: else the engine is at fault, and that is raised."""
    try:
        return _finds(active, word, chunk, WIDTH)
    except EngineError:
        _finds(index, word, chunk, WIDTH)
    try:
        return _finds(active, word, chunk, WIDTH)
    except EngineError as error:
        return error


def words_of(content: str) -> dict[str, str]:
    """The word of a text that says most, in the other case, and a run of Chinese inside it."""
    text = normalise_query(content)
    latin = [term for term in query_terms(text) if term.kind is not TermKind.HAN]
    found = {}
    if latin:
        found["latin"] = max(latin, key=_says).text.swapcase()
    if runs := _HAN.findall(text):
        longest = max(runs, key=len)
        found["han"] = longest[len(longest) // 4 :][:HAN_RUN]
    return found


def _says(term: Term) -> tuple[bool, int, str]:
    return term.kind is TermKind.IDENTIFIER, len(term.text), term.text


def _finds(index: Collection, words: str, chunk: IndexedChunk, width: int) -> bool:
    request = SearchRequest(
        query=words, vector=None, kb_scope=chunk.kb_scope, retrieve_k=width, mode="sparse"
    )
    return any(hit.doc_id == chunk.chunk.doc_id for hit in index.search(request))


def _said_of_words(by_script: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for script, counts in by_script.items():
        if counts["active"] - counts["new"] > max(1, WORDS_TOLERANCE * counts["active"]):
            yield (
                f"the new generation finds {counts['new']} of {counts['active']} sampled documents "
                f"that the active one finds by a {script} word of theirs: the analyzer does worse"
            )
