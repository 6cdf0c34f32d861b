"""Hits, candidates and evidence blocks to test with."""

from knowport.core.identity import evidence_key
from knowport.model import (
    AttemptName,
    Candidate,
    EvidenceBlock,
    HitReason,
    RelevanceLevel,
    Scores,
    SearchHit,
)


def hit(
    doc_id="d", chunk_index=0, content="text", *, vector_id="", dense=0.9, **fields
) -> SearchHit:
    values = {"title": "", "breadcrumb": "", "source": "s", "category": ""} | fields
    scores = Scores(fused=0.03, dense=dense, dense_rank=1, sparse=4.2, sparse_rank=2)
    return SearchHit(vector_id, doc_id, chunk_index, content, scores=scores, **values)


def candidate(
    rank, doc_id="d", chunk_index=0, content="text", *, attempt=AttemptName.UNFILTERED, **fields
) -> Candidate:
    found = hit(doc_id, chunk_index, content, **fields)
    key = evidence_key(found.doc_id, found.chunk_index, found.id, rank)
    return Candidate(key, rank, found, (HitReason(attempt, rank),))


def block(rank, content, *, level=RelevanceLevel.HIGH, **fields) -> EvidenceBlock:
    """The block of that rank, which is also its chunk's index."""
    fields = {"title": "T", **fields}
    return EvidenceBlock(candidate(rank, "d", rank, content, **fields), level)
