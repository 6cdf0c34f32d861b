"""Reciprocal rank fusion: what the engine's RRF ranker computes, in plain Python.

The engine fuses; this is the formula written down, which contract tests hold it against.
"""

from __future__ import annotations

from collections.abc import Sequence


def rrf(
    rankings: Sequence[Sequence[str]],
    *,
    k: float = 60,
    weights: Sequence[float] | None = None,
) -> list[tuple[str, float]]:
    """Fuse rankings (best first) into one: pairs of id and score, best first.

    ::

        score(d) = sum over rankings i of  w_i / (k + rank_i(d))

    ``rank_i(d)`` counts from 1; a ranking without ``d`` adds nothing; every ``w_i`` is 1 unless
    ``weights`` are given. Order: score descending, then id ascending.

    Cormack, Clarke, Buettcher: "Reciprocal Rank Fusion outperforms Condorcet and individual rank
    learning methods", SIGIR 2009, where k = 60 and there are no weights.

    Raises ValueError for ``k`` not above 0, another number of weights than of rankings, and an
    id that one ranking holds twice.
    """
    if not k > 0:
        raise ValueError(f"k must be above 0, not {k}")
    if weights is None:
        weights = [1.0] * len(rankings)
    if len(weights) != len(rankings):
        raise ValueError(f"{len(weights)} weights for {len(rankings)} rankings")
    scores: dict[str, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        if len(set(ranking)) != len(ranking):
            raise ValueError("a ranking holds an id twice")
        for rank, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + weight / (k + rank)
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
