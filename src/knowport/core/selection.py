"""From hits to the candidates worth showing: identify, then select.

``select`` walks the candidates once, in their order, and each step only ever takes away:

1. dedup by evidence key (the better-ranked keeps its content and gains the other's reasons)
2. relevance
3. per-document cap (a candidate without a document is its own)
4. return_n

Relevance comes before the cap, so that a chunk that will not be shown cannot use up the room of
one that would (docs/adr/0008).

Because the walk goes on past a dropped candidate, later ones fill the place it leaves. Under
calibrated thresholds they only fill up: where not one of the first return_n is relevant, nothing is
kept, as a candidate far down reaches a threshold by chance more often than not (docs/adr/0008).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from knowport.core.identity import evidence_key
from knowport.model import Attempt, AttemptName, Candidate, Drop, DropReason, HitReason


@dataclass(frozen=True, slots=True)
class Selection:
    """What was kept, best first, and what was not, each with its reason, in order of rank."""

    kept: tuple[Candidate, ...]
    drops: tuple[Drop, ...]


def identify(attempt: Attempt) -> tuple[Candidate, ...]:
    """Hits of an attempt as candidates: evidence key and original rank from 1."""
    return tuple(
        Candidate(
            key=evidence_key(hit.doc_id, hit.chunk_index, hit.id, rank),
            rank=rank,
            hit=hit,
            reasons=(HitReason(attempt.name, rank),),
            assessment=assessment,
        )
        for rank, (hit, assessment) in enumerate(
            zip(attempt.hits, attempt.assessments, strict=True), start=1
        )
    )


def select(
    candidates: Sequence[Candidate],
    *,
    max_per_document: int,
    return_n: int,
    is_relevant: Callable[[Candidate], bool] = lambda _: True,
    first_decide: bool = False,
) -> Selection:
    """Select from candidates in order of rank, key and first reason; see the module's text.

    With ``first_decide`` nothing is kept where none of the first ``return_n`` is relevant.
    """
    ordered = sorted(candidates, key=selection_order)
    unique, drops = _deduplicate(ordered)
    relevant: list[Candidate] = []
    for candidate in unique:
        if is_relevant(candidate):
            relevant.append(candidate)
        else:
            drops.append(_drop(candidate, DropReason.BELOW_THRESHOLD))
    kept, left = _filled(relevant, max_per_document, return_n)
    if first_decide and not any(is_relevant(candidate) for candidate in unique[:return_n]):
        left += [_drop(candidate, DropReason.BEYOND_RETURN_N) for candidate in kept]
        kept = []
    drops += left
    return Selection(tuple(kept), tuple(sorted(drops, key=lambda drop: (drop.rank, drop.key))))


def _filled(
    candidates: Sequence[Candidate], max_per_document: int, return_n: int
) -> tuple[list[Candidate], list[Drop]]:
    """The first candidates that find a place under the cap, and the drops of the others."""
    kept: list[Candidate] = []
    left: list[Drop] = []
    per_document: Counter[str] = Counter()
    for candidate in candidates:
        document = candidate.hit.doc_id or candidate.key
        if per_document[document] >= max_per_document:
            left.append(_drop(candidate, DropReason.OVER_CAP))
        elif len(kept) >= return_n:
            left.append(_drop(candidate, DropReason.BEYOND_RETURN_N))
        else:
            per_document[document] += 1
            kept.append(candidate)
    return kept, left


def selection_order(candidate: Candidate) -> tuple[int, str, int, AttemptName]:
    """Sort key of candidates: rank, key and, as merged attempts have two of one, the rank that
    its attempt gave it."""
    first = candidate.reasons[0]
    return candidate.rank, candidate.key, first.rank, first.attempt


def _deduplicate(ordered: Sequence[Candidate]) -> tuple[list[Candidate], list[Drop]]:
    first: dict[str, Candidate] = {}
    drops = []
    for candidate in ordered:
        seen = first.get(candidate.key)
        if seen is None:
            first[candidate.key] = candidate
        else:
            new = tuple(reason for reason in candidate.reasons if reason not in seen.reasons)
            first[candidate.key] = replace(seen, reasons=seen.reasons + new)
            drops.append(_drop(candidate, DropReason.DUPLICATE))
    return list(first.values()), drops


def _drop(candidate: Candidate, reason: DropReason) -> Drop:
    return Drop(candidate.key, candidate.rank, reason)
