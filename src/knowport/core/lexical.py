"""Lexical evidence: how much of a query a chunk really contains.

BM25 scores have no scale: the best hit of a query that shares one common word with the corpus
scores as high as a good one elsewhere. Coverage has one, 0..1: the share of the query's weight of
terms that stands in the chunk, rare terms weighing more.

The weight of a term is its inverse document frequency among the candidates of this very lookup
(Robertson's form, ``ln(1 + (N - n + 0.5) / (n + 0.5))`` for n of N candidates), because a term
that even the best lexical hits lack is rare or absent in the corpus, and that is what matters. A
pair of Chinese characters that no candidate has counts a quarter: half of the pairs of a run
straddle two words and stand for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from knowport.core.compose import folded
from knowport.core.terms import places
from knowport.model import LegWeights, SearchHit, Term, TermKind

ABSENT_HAN_WEIGHT = 0.25
# A lexical hit that covers so much of the query's weight is trusted as much as the dense leg; below
# it trust falls with the square.
FULL_TRUST_COVERAGE = 0.4
# Of a query of identifiers alone, found whole, the dense neighbours are noise.
IDENTIFIERS_COVERED = 0.9
IDENTIFIERS_DENSE_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class LexicalEvidence:
    """By id of the hit: its coverage, 0..1, and how many terms stand in its title or breadcrumb."""

    coverage: Mapping[str, float]
    in_headings: Mapping[str, int]


def lexical_evidence(terms: Sequence[Term], hits: Iterable[SearchHit]) -> LexicalEvidence:
    """What the candidates of one lookup hold of a query's terms."""
    unique = {hit.id: hit for hit in hits}
    headings = [folded(f"{hit.title}\n{hit.breadcrumb}\n") for hit in unique.values()]
    contents = [folded(hit.content) for hit in unique.values()]
    texts = [heading + content for heading, content in zip(headings, contents, strict=True)]
    found = places(terms, texts)
    ends = list(map(len, headings))
    in_headings = [0] * len(texts)
    for row in found:
        counted = zip(in_headings, row, ends, strict=True)
        in_headings = [count + (0 <= place < end) for count, place, end in counted]
    return LexicalEvidence(
        dict(zip(unique, coverage(terms, found, len(texts)), strict=True)),
        dict(zip(unique, in_headings, strict=True)),
    )


def coverage(terms: Sequence[Term], found: Sequence[Sequence[int]], total: int) -> list[float]:
    """The coverage of each of ``total`` candidates; ``found`` are the rows of ``terms.places``."""
    whole, shares = 0.0, [0.0] * total
    for term, row in zip(terms, found, strict=True):
        n = total - row.count(-1)
        weight = math.log(1 + (total - n + 0.5) / (n + 0.5))
        if n == 0 and term.kind is TermKind.HAN:
            weight *= ABSENT_HAN_WEIGHT
        whole += weight
        shares = [
            share + weight if place >= 0 else share
            for share, place in zip(shares, row, strict=True)
        ]
    return [share / whole for share in shares] if terms else shares


def leg_weights(terms: Sequence[Term], best_coverage: float) -> LegWeights:
    """Weights of the legs from the coverage of the lexical leg's first hit, 0..1.

    Plain RRF gives a leg that matched one stray word the same say as one that answers. Measured
    in ``docs/adr/0007``.
    """
    sparse = min(1.0, (best_coverage / FULL_TRUST_COVERAGE) ** 2)
    if best_coverage >= IDENTIFIERS_COVERED and all(
        term.kind is TermKind.IDENTIFIER for term in terms
    ):
        return LegWeights(IDENTIFIERS_DENSE_WEIGHT, sparse, "identifiers_only")
    if sparse >= 1.0:
        return LegWeights(1.0, 1.0, "lexical_covers_query")
    reason = "lexical_covers_little" if sparse > 0 else "lexical_covers_nothing"
    return LegWeights(1.0, sparse, reason)
