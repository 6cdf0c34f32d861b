"""Prove that chunks are retrievable: each is searched for by its own vector and its own words.

That a row is stored does not say that it is found: its vector may be another's, its words may be
missing in the lexical index. A chunk counts as found where only chunks like it come before it,
because a search for a text cannot tell its copies apart.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from knowport.core.chunking import ChunkingOptions
from knowport.core.compose import lexical_text, text_hash
from knowport.core.query import MAX_QUERY_CHARS, has_lexical_terms, normalise_query
from knowport.core.terms import contains, query_terms
from knowport.model import (
    ChunkMark,
    Document,
    IndexedChunk,
    SearchHit,
    SearchMode,
    SearchRequest,
)
from knowport.pipelines.audit import AuditFinding, FindingCode
from knowport.pipelines.replace import Index, cut
from knowport.pipelines.vectors import Vectors
from knowport.ports import Embedder, Ledger

# The first width is that of a lookup; the last is the widest that a Milvus server allows.
WIDTHS = (20, 1_000, 16_384)
# A cosine of a vector with itself, as float32 and as an endpoint that is asked twice give it.
SAME = 0.999
# A chunk that holds so much of another's words is like it.
ALIKE = 0.9


def sampled(counts: Mapping[str, int], size: int | None) -> dict[str, list[int]]:
    """Chunk numbers by document id of ``size`` chunks, or of all (None); ``counts`` says how many
    each document has.

    They are those whose ids have the least hashes: the same ones as long as they exist, whatever
    else comes and goes.
    """
    keys = ((doc_id, chunk) for doc_id, count in counts.items() for chunk in range(count))
    chosen = keys if size is None else heapq.nsmallest(size, keys, key=_draw)
    chunks = defaultdict(list)
    for doc_id, chunk in sorted(chosen):
        chunks[doc_id].append(chunk)
    return dict(chunks)


def _draw(key: tuple[str, int]) -> bytes:
    return hashlib.sha256(f"{key[0]}#chunk-{key[1]}".encode()).digest()


def made_anew(
    document: Document,
    numbers: Iterable[int],
    marks: Sequence[ChunkMark],
    chunking: ChunkingOptions,
    embedder: Embedder,
    ledger: Ledger,
) -> list[IndexedChunk]:
    """Chunks of a document as they should be stored, made from its text.

    Not those whose contents are not those of ``marks``: they have changed meanwhile, or this
    Knowport cuts otherwise than the one that built the generation. Raises EmbeddingError.
    """
    whole = cut(document, chunking)
    same = [
        number
        for number in numbers
        if number < min(len(whole.chunks), len(marks))
        and text_hash(whole.chunks[number].content) == marks[number].content_hash
    ]
    part = replace(
        whole,
        chunks=[whole.chunks[number] for number in same],
        texts=[whole.texts[number] for number in same],
        hashes=[whole.hashes[number] for number in same],
    )
    vectors = Vectors(embedder, ledger)
    vectors.fill(dict(zip(part.hashes, part.texts, strict=True)), keys=part.keys())
    return part.indexed(vectors.known)


def probe(index: Index, chunks: Iterable[IndexedChunk], *, lexical: bool) -> list[AuditFinding]:
    """Search for chunks by what they should be stored with; what is not found is a finding.

    Without ``lexical`` the index has no sparse leg. A chunk without any word is not asked of it.
    Raises EngineError.
    """
    return [
        finding
        for chunk in chunks
        for finding in (_dense(index, chunk), _sparse(index, chunk) if lexical else None)
        if finding is not None
    ]


def _dense(index: Index, chunk: IndexedChunk) -> AuditFinding | None:
    for width in WIDTHS:
        hits = index.search(_request(chunk, "dense", chunk.search_text, width))
        place = _place(hits, chunk)
        if place is not None:
            cosine = hits[place].scores.dense or 0.0
            problem = f"The vector stored for it is another text's (cosine {cosine:.3f})."
            return None if cosine >= SAME else _finding(chunk, "not_found_dense", problem)
        if len(hits) < width or (hits[-1].scores.dense or 0.0) < SAME:
            return _finding(chunk, "not_found_dense", "A search by its vector does not find it.")
    return None  # it has more copies than any search shows


def _sparse(index: Index, chunk: IndexedChunk) -> AuditFinding | None:
    words = normalise_query(chunk.search_text)[:MAX_QUERY_CHARS]
    if not has_lexical_terms(words):
        return None
    terms = query_terms(words)

    def alike(hit: SearchHit) -> bool:
        text = lexical_text(hit)
        return sum(contains(text, term) for term in terms) >= ALIKE * len(terms)

    for width in WIDTHS:
        hits = index.search(_request(chunk, "sparse", words, width))
        place = _place(hits, chunk)
        if place is not None and (place < WIDTHS[0] or all(map(alike, hits[:place]))):
            return None
        if place is not None or len(hits) < width or not all(map(alike, hits)):
            return _finding(chunk, "not_found_sparse", "A search by its words does not find it.")
    return None  # it has more copies than any search shows


def _place(hits: Sequence[SearchHit], chunk: IndexedChunk) -> int | None:
    own = (chunk.chunk.doc_id, chunk.chunk.chunk_index)
    found = (place for place, hit in enumerate(hits) if (hit.doc_id, hit.chunk_index) == own)
    return next(found, None)


def _finding(chunk: IndexedChunk, code: FindingCode, message: str) -> AuditFinding:
    doc_id = chunk.chunk.doc_id
    return AuditFinding(code, doc_id, f"{doc_id}#chunk-{chunk.chunk.chunk_index}", message)


def _request(chunk: IndexedChunk, mode: SearchMode, words: str, width: int) -> SearchRequest:
    return SearchRequest(
        query=words,
        vector=chunk.vector if mode == "dense" else None,
        kb_scope=chunk.kb_scope,
        retrieve_k=width,
        mode=mode,
    )
