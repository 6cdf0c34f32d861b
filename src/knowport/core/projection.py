"""From the internal result of a lookup to what the agent sees."""

from __future__ import annotations

from collections import Counter

from knowport.model import Answer, DropReason, Evidence, LookupResult, PackedEvidence


def project(result: LookupResult) -> Answer:
    """The agent's view: excerpts one to one with citable ids, and no internal scores."""
    # A duplicate is not withheld: its text is in the answer under the same key.
    withheld = Counter(
        str(drop.reason) for drop in result.drops if drop.reason is not DropReason.DUPLICATE
    )
    return Answer(
        found=result.found,
        relevance_level=result.level,
        lookup_id=result.lookup_id,
        generation=result.generation,
        evidence=tuple(_evidence(item) for item in result.evidence),
        withheld=dict(sorted(withheld.items())),
        notices=result.notices,
    )


def _evidence(item: PackedEvidence) -> Evidence:
    candidate = item.block.candidate
    hit = candidate.hit
    return Evidence(
        document_id=candidate.key,
        source=hit.source,
        title=hit.title,
        breadcrumb=hit.breadcrumb,
        excerpt=item.excerpt,
        truncated=item.truncated,
        relevance_level=item.block.level,
        via=candidate.reasons[0].attempt,
    )
