"""Measures of one query's result; every value lies in 0..1 and is never NaN.

A ranking is of *documents*: a document stands where its first chunk stands and counts once.
Denominators come from the gold set alone. A query without gold has no ranking measure (None: left
out of means); a query with gold and no result scores 0 and stays.

=====================  ==========================================================================
nDCG@k                 sum of rel/log2(rank+1) over the first k, by the same sum of the best
                       possible order (Jaervelin and Kekaelaeinen 2002, linear gain as trec_eval)
R@k                    relevant documents among the first k, by all relevant documents
RR@k                   1/rank of the first relevant document, 0 if it is beyond k
SpanHit@5              1 if a returned chunk overlaps an answer span
SpanRecall@5           answer spans that a returned chunk overlaps, by all answer spans
MultiChunk@5           1 if two returned chunks or more overlap answer spans; only for queries whose
                       spans lie in two chunks or more
EvidencePrecision@5    distinct relevant documents among the returned, by distinct documents
                       returned; 0 where nothing was returned
Found                  1 if anything was returned
=====================  ==========================================================================

The first three are those of ir-measures by name and value (held equal by tests). "Returned" is
what an agent gets: at most five blocks, after thresholds, cap and budget.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

RANKING = ("nDCG@10", "R@1", "R@5", "R@10", "RR@10")
EVIDENCE = ("SpanHit@5", "SpanRecall@5", "MultiChunk@5", "EvidencePrecision@5", "Found")
ABSTENTION = ("AbstentionPrecision", "AbstentionRecall")
RETURNED = 5
_NAME = re.compile(r"(nDCG|R|RR)@([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A returned chunk: its document and the code points it covers, ``end`` exclusive."""

    doc_id: str
    start: int
    end: int


def distinct(ranking: Sequence[str]) -> list[str]:
    """The ranking with each item at its first place only."""
    return list(dict.fromkeys(ranking))


def ndcg(ranking: Sequence[str], gold: Mapping[str, int], k: int) -> float:
    """nDCG@k of a ranking of documents; ``gold`` holds relevances of 1 or more."""
    gains = [gold.get(doc_id, 0) for doc_id in distinct(ranking)[:k]]
    best = sorted(gold.values(), reverse=True)[:k]
    return _checked(_dcg(gains) / _dcg(best))


def recall(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """R@k of a ranking of documents."""
    return _checked(sum(doc_id in gold for doc_id in distinct(ranking)[:k]) / len(gold))


def reciprocal_rank(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """RR@k of a ranking of documents."""
    for rank, doc_id in enumerate(distinct(ranking)[:k], start=1):
        if doc_id in gold:
            return 1.0 / rank
    return 0.0


def ranking_measure(name: str, ranking: Sequence[str], gold: Mapping[str, int]) -> float | None:
    """A measure by its ir-measures name, None without gold; raises KeyError for other names."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise KeyError(name)
    if not gold:
        return None
    k = int(match[2])
    if match[1] == "nDCG":
        return ndcg(ranking, gold, k)
    return (recall if match[1] == "R" else reciprocal_rank)(ranking, gold, k)


def is_ranking_measure(name: str) -> bool:
    """Whether ``ranking_measure`` knows the name."""
    return _NAME.fullmatch(name) is not None


def evidence_measures(
    returned: Sequence[ChunkSpan],
    gold: Mapping[str, int],
    spans: Sequence[ChunkSpan],
    chunks_with_answer: int,
) -> dict[str, float]:
    """Measures of what was returned, best first; those that do not apply are absent.

    ``spans`` are the answer's, ``chunks_with_answer`` is the number of chunks of the index that
    overlap one of them.
    """
    first = returned[:RETURNED]
    values = {"Found": float(bool(first))}
    if gold:
        documents = {chunk.doc_id for chunk in first}
        values["EvidencePrecision@5"] = len(documents & gold.keys()) / max(len(documents), 1)
    if spans:
        hit = [span for span in spans if any(overlaps(chunk, span) for chunk in first)]
        holding = {chunk for chunk in first if any(overlaps(chunk, span) for span in spans)}
        values["SpanHit@5"] = float(bool(hit))
        values["SpanRecall@5"] = len(hit) / len(spans)
        if chunks_with_answer > 1:
            values["MultiChunk@5"] = float(len(holding) > 1)
    return {name: _checked(value) for name, value in values.items()}


def overlaps(one: ChunkSpan, other: ChunkSpan) -> bool:
    """Whether two spans of one document share a code point."""
    return one.doc_id == other.doc_id and one.start < other.end and other.start < one.end


def abstention(refused: Sequence[bool], unanswerable: Sequence[bool]) -> dict[str, float | None]:
    """Precision and recall of refusing, over all queries; None where the denominator is 0."""
    both = sum(r and u for r, u in zip(refused, unanswerable, strict=True))
    return {
        "AbstentionPrecision": both / sum(refused) if any(refused) else None,
        "AbstentionRecall": both / sum(unanswerable) if any(unanswerable) else None,
    }


def _dcg(gains: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _checked(value: float) -> float:
    # The last bit of a quotient may pass 1; anything more is a fault of ours.
    if not -1e-9 <= value <= 1 + 1e-9:
        raise AssertionError(f"a measure is {value}, outside 0..1")
    return min(1.0, max(0.0, value))
