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
from collections.abc import Sequence

from knowport.core.terms import contains
from knowport.model import LegWeights, Term, TermKind

ABSENT_HAN_WEIGHT = 0.25
# A lexical hit that covers so much of the query's weight is trusted as much as the dense leg; below
# it trust falls with the square.
FULL_TRUST_COVERAGE = 0.4
# Of a query of identifiers alone, found whole, the dense neighbours are noise.
IDENTIFIERS_COVERED = 0.9
IDENTIFIERS_DENSE_WEIGHT = 0.5


def coverage(terms: Sequence[Term], texts: Sequence[str]) -> list[float]:
    """For each text of the candidates, in lower case, its coverage of the terms, 0..1."""
    if not terms or not texts:
        return [0.0] * len(texts)
    held = [[contains(text, term) for term in terms] for text in texts]
    total = len(texts)
    weights = []
    for position, term in enumerate(terms):
        n = sum(row[position] for row in held)
        weight = math.log(1 + (total - n + 0.5) / (n + 0.5))
        absent = n == 0 and term.kind is TermKind.HAN
        weights.append(weight * ABSENT_HAN_WEIGHT if absent else weight)
    whole = sum(weights)
    return [
        sum(weight for weight, has in zip(weights, row, strict=True) if has) / whole for row in held
    ]


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
