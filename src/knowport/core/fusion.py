"""Reciprocal rank fusion: what the engine's RRF ranker computes, in plain Python.

The contract tests hold the engine to ``rrf``. ``fuse_legs`` applies it with weights that the
engine's ranker cannot express. Ranks are fused, never raw scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knowport.model import LegWeights, Scores, SearchHit


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


def fuse_legs(
    dense: Sequence[SearchHit],
    sparse: Sequence[SearchHit],
    *,
    weights: LegWeights,
    k: int,
    prefer: Callable[[str], int] = lambda _: 0,
) -> tuple[SearchHit, ...]:
    """The union of two legs, each best first, by weighted RRF with all scores of both legs.

    Exact ties, which RRF has many of, go to the id with the higher ``prefer``, then to the lower
    id. A leg of weight 0 still contributes its hits, behind all others.
    """
    dense_by_id = {hit.id: hit for hit in dense}
    sparse_by_id = {hit.id: hit for hit in sparse}
    fused = rrf(
        [list(dense_by_id), list(sparse_by_id)], k=k, weights=[weights.dense, weights.sparse]
    )
    order = sorted(fused, key=lambda pair: (-pair[1], -prefer(pair[0])))  # ties stay by id
    return tuple(
        _merged(dense_by_id.get(key), sparse_by_id.get(key), score) for key, score in order
    )


def _merged(dense: SearchHit | None, sparse: SearchHit | None, fused: float) -> SearchHit:
    """One hit with the scores of both legs. Spelt out, by position: ``dataclasses.replace`` is ten
    times as slow, and this runs for every hit of every lookup."""
    hit = dense or sparse
    assert hit is not None
    scores = Scores(
        fused,
        hit.scores.dense,
        dense.scores.dense_rank if dense else None,
        sparse.scores.sparse if sparse else None,
        sparse.scores.sparse_rank if sparse else None,
    )
    return SearchHit(
        hit.id,
        hit.doc_id,
        hit.chunk_index,
        hit.content,
        hit.title,
        hit.breadcrumb,
        hit.source,
        hit.category,
        scores,
        hit.metadata,
    )
