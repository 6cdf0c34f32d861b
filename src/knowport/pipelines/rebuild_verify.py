"""Prove a generation before it is switched to.

    compare   every stored row against what was built, both ways           (pipelines.audit)
    search    sampled chunks by their own vectors and their own words      (pipelines.probe)
    words     sampled chunks by one of their words, in the new and in the active generation: by
              its whole text a chunk is found under any analyzer that treats both alike, by a word
              inside a sentence, written in the other case, it is not
    judge     whatever the caller compares, such as labelled queries

Only the rebuild writes to the generation, and it does not write meanwhile. Documents that are
changed or deleted meanwhile are left out; the switch replays them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import regex

from knowport.core.compose import text_hash
from knowport.core.evidence_map import Fate, fates
from knowport.core.query import normalise_query
from knowport.core.terms import query_terms
from knowport.model import IndexedChunk, Metadata, SearchRequest, Term, TermKind
from knowport.pipelines.audit import AuditFinding, AuditProgress, ExpectedDocument, audit_index
from knowport.pipelines.probe import probe, sampled
from knowport.pipelines.rebuild_ports import Collection, OnProgress, RebuildProgress, Target
from knowport.pipelines.replace import cut
from knowport.pipelines.vectors import Vectors
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
    not as they should be, and figures."""

    failures: tuple[str, ...]
    damaged: tuple[str, ...]
    report: Metadata


def prove(
    target: Target,
    active: Collection | None,
    ledger: Ledger,
    *,
    sample: int = SAMPLE,
    on_progress: OnProgress = lambda _: None,
) -> Proof:
    """Prove a generation; ``active`` is None where the active collection is lost.

    Raises EngineError, EmbeddingError or LedgerError.
    """
    expected = list(_expected(ledger, target.name))
    whole = {document.doc_id for document in expected}
    meanwhile = set(ledger.built(target.name)) - whole
    audit = audit_index(target.index, expected, on_progress=lambda now: on_progress(_compare(now)))
    findings = [finding for finding in audit.findings if finding.doc_id not in meanwhile]
    lexical = target.generation.lexical
    chunks = list(_chunks(sampled(_counts(expected), sample), target, ledger))
    for done, chunk in enumerate(chunks):
        on_progress(RebuildProgress("search", done, len(chunks)))
        findings += probe(target.index, [chunk], lexical=lexical)
    words = _by_words(chunks, target.index, active) if lexical and active is not None else {}
    failures = [*_said_of(findings), *_said_of_words(words)]
    report = {
        "documents": len(expected),
        "chunks": sum(len(document.hashes) for document in expected),
        "changed_meanwhile": len(meanwhile),
        "searched_for": len(chunks),
        "findings": len(findings),
        "first_findings": [asdict(finding) for finding in findings[:_SHOWN]],
        "found_by_words": words,
        "evidence_keys": _fates(expected, target.name, ledger),
    }
    damaged = dict.fromkeys(finding.doc_id for finding in findings)
    return Proof(tuple(failures), tuple(damaged), report)


def _compare(now: AuditProgress) -> RebuildProgress:
    return RebuildProgress("compare", now.done, now.total)


def _counts(expected: Sequence[ExpectedDocument]) -> dict[str, int]:
    return {document.doc_id: len(document.hashes) for document in expected}


def _expected(ledger: Ledger, generation: str) -> Iterator[ExpectedDocument]:
    """What is built of documents that are still what they were."""
    built = ledger.built(generation)
    infos = [info for info in ledger.documents() if built.get(info.doc_id) == info.content_hash]
    for start in range(0, len(infos), _READ):
        page = infos[start : start + _READ]
        marks = ledger.built_marks(generation, [info.doc_id for info in page])
        for info in page:
            hashes = tuple(mark.content_hash for mark in marks[info.doc_id])
            yield ExpectedDocument(info.doc_id, info.kb_scope, info.category, hashes)


def _chunks(
    chosen: Mapping[str, Sequence[int]], target: Target, ledger: Ledger
) -> Iterator[IndexedChunk]:
    """Chunks as they should be stored, made anew; not of a document that has changed."""
    marks = ledger.built_marks(target.name, list(chosen))
    for doc_id, numbers in chosen.items():
        document = ledger.document_text(doc_id)
        if document is None:
            continue
        whole = cut(document, target.chunking)
        same = [
            number
            for number in numbers
            if number < min(len(whole.chunks), len(marks[doc_id]))
            and text_hash(whole.chunks[number].content) == marks[doc_id][number].content_hash
        ]
        part = replace(
            whole,
            chunks=[whole.chunks[number] for number in same],
            texts=[whole.texts[number] for number in same],
            hashes=[whole.hashes[number] for number in same],
        )
        vectors = Vectors(target.embedder, ledger)
        vectors.fill(dict(zip(part.hashes, part.texts, strict=True)), keys=part.keys())
        yield from part.indexed(vectors.known)


def _fates(expected: Sequence[ExpectedDocument], generation: str, ledger: Ledger) -> dict[str, int]:
    """How many evidence keys of now will stand for the same text, and where that of others will
    be."""
    counts: Counter[Fate] = Counter()
    for start in range(0, len(expected), _READ):
        doc_ids = [document.doc_id for document in expected[start : start + _READ]]
        old, new = ledger.marks(doc_ids), ledger.built_marks(generation, doc_ids)
        for doc_id in doc_ids:
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


def _by_words(
    chunks: Sequence[IndexedChunk], index: Collection, active: Collection
) -> dict[str, dict[str, int]]:
    """By script: how many chunks' documents the active generation finds by one of their words
    (``active``), and how many of those the new one finds at all (``new``)."""
    counted: dict[str, Counter[str]] = {}
    for chunk in chunks:
        for script, word in words_of(chunk.chunk.content).items():
            counts = counted.setdefault(script, Counter(active=0, new=0))
            if _finds(active, word, chunk, WIDTH):
                counts["active"] += 1
                counts["new"] += any(_finds(index, word, chunk, width) for width in (WIDTH, WIDE))
    return {script: dict(counts) for script, counts in counted.items()}


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
