"""What is kept of a lookup: the plan, the attempts, the fate of every candidate, the times.

Texts (the query, excerpts, headings) are left out unless asked for: a trace must be safe to keep
and to send. Ids, ranks, scores, codes and counts always stay.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from knowport.core.selection import selection_order
from knowport.model import Attempt, Candidate, DropReason, LookupResult


def trace_of(result: LookupResult, *, content: bool) -> dict[str, Any]:
    """A lookup as JSON values."""
    plan = result.plan
    trace: dict[str, Any] = {
        "lookup_id": result.lookup_id,
        "generation": result.generation,
        "plan": {
            "mode": plan.mode,
            "lexical": plan.lexical,
            "kb_scope": plan.kb_scope,
            "category": plan.category,
            "domains": list(plan.domains),
            "soft_category": plan.soft_category,
            "terms": len(plan.terms),
        },
        "attempts": [_attempt(attempt) for attempt in result.attempts],
        "selected_attempt": str(result.selected_attempt),
        "found": result.found,
        "relevance_level": str(result.level),
        "calibrated": result.calibrated,
        "candidates": fates(result),
        "notices": [notice.code for notice in result.notices],
        "timings_ms": {t.step: round(t.seconds * 1000, 3) for t in result.timings},
    }
    if content:
        trace["query"] = plan.original
        trace["plan"]["text"] = plan.text
        trace["plan"]["terms"] = [asdict(term) for term in plan.terms]
        trace["evidence"] = [
            {
                "document_id": item.block.candidate.key,
                "title": item.block.candidate.hit.title,
                "breadcrumb": item.block.candidate.hit.breadcrumb,
                "excerpt": item.excerpt,
            }
            for item in result.evidence
        ]
    return trace


def fates(result: LookupResult) -> list[dict[str, Any]]:
    """Each candidate with its ranks, scores and fate, in order of its place in the lookup."""
    return [_candidate(candidate, fate) for candidate, fate in fated(result)]


def fated(result: LookupResult) -> list[tuple[Candidate, str]]:
    """Each candidate with its fate, ``kept`` or a drop reason, in order of its place in the lookup.

    The first of one evidence key has the key's fate; the others are its duplicates.
    """
    dropped = {
        drop.key: str(drop.reason)
        for drop in result.drops
        if drop.reason is not DropReason.DUPLICATE
    }
    seen: set[str] = set()
    found = []
    for candidate in sorted(result.candidates, key=selection_order):
        first = candidate.key not in seen
        fate = dropped.get(candidate.key, "kept") if first else str(DropReason.DUPLICATE)
        found.append((candidate, fate))
        seen.add(candidate.key)
    return found


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "name": str(attempt.name),
        "mode": attempt.mode,
        "category": attempt.category,
        "hits": len(attempt.hits),
        "weights": None if attempt.weights is None else asdict(attempt.weights),
        "level": str(attempt.level),
        "low_quality": attempt.low_quality,
        "failed_leg": attempt.failed_leg.partition(":")[0],
    }


def _candidate(candidate: Candidate, fate: str) -> dict[str, Any]:
    assessment, scores = candidate.assessment, candidate.hit.scores
    return {
        "document_id": candidate.key,
        "rank": candidate.rank,
        "fate": fate,
        "level": str(assessment.level),
        "score": _rounded(assessment.score),
        "coverage": _rounded(assessment.coverage),
        "found_by": [f"{reason.attempt}:{reason.rank}" for reason in candidate.reasons],
        "fused": _rounded(scores.fused),
        "dense": _rounded(scores.dense),
        "dense_rank": scores.dense_rank,
        "sparse": _rounded(scores.sparse),
        "sparse_rank": scores.sparse_rank,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
