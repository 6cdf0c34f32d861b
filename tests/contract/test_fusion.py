"""The engine's fusion against the formula, from the rankings that its single legs give.

Ties inside a leg are ordered by the engine, each in its own way (Lite 2.5.1 and 3.2.2 differ), and
the ranks that a tie gives are what the fusion sees. The legs are therefore asked one by one through
the raw client; both engines rank a leg of a hybrid search as they rank that leg alone.

The weighted ranker is not one formula either. Measured, with ``w`` the weights, ``c`` the cosine
and ``b`` the BM25 score, a missing leg adding 0:

=================  ===========================================================================
Milvus Lite 2.5.1  ``w_dense * (1 + c) / 2 + w_sparse * (1 - 2 / pi * atan(b))``: of two texts
                   that BM25 finds the WORSE one gets more, since b is taken for a distance;
                   ``norm_score`` changes nothing
Milvus Lite 3.2.2  ``w_dense * (1 + c) / 2 + w_sparse * 2 / pi * atan(b)``
=================  ===========================================================================
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from engines import LEXICAL
from knowport.adapters.milvus import Engine, MilvusIndex
from knowport.core.fusion import rrf
from knowport.model import SearchRequest

from .conftest import DIMENSION
from .samples import chunk, request, vector

pytestmark = pytest.mark.engine(*LEXICAL)

TEXTS = ["alpha beta", "alpha", "beta gamma", "alpha alpha delta", "gamma", "delta beta"]
QUERIES = ["alpha", "beta gamma", "delta"]
TOLERANCE = 1e-6  # scores are float32 in the engine


def fill_with_ties(index: MilvusIndex, seed: int) -> list[SearchRequest]:
    """40 chunks of 6 texts and 25 vectors in random order; returns searches to ask of them."""
    draw = random.Random(seed)
    numbers = np.random.default_rng(seed)
    vectors = numbers.normal(size=(25, DIMENSION)).astype(np.float32)
    rows = [
        chunk(f"doc{n:02}", 0, draw.choice(TEXTS), vector=vectors[n % 25], category=f"c{n % 2}")
        for n in range(40)
    ]
    draw.shuffle(rows)
    index.upsert_chunks(rows)
    return [
        request(
            query,
            mode="hybrid",
            vector=numbers.normal(size=DIMENSION).astype(np.float32),
            retrieve_k=width,
            rrf_k=rrf_k,
            category=category,
        )
        for query in QUERIES
        for width, rrf_k, category in [(5, 60, None), (10, 1, None), (20, 60, "c1"), (40, 60, None)]
    ]


def leg(engine: Engine, index: MilvusIndex, asked: SearchRequest, field: str) -> list[str]:
    where = f'kb_scope == "{asked.kb_scope}"'
    if asked.category:
        where += f' and category == "{asked.category}"'
    (rows,) = engine.client.search(
        index.collection,
        data=[asked.vector if field == "dense_vector" else asked.query],
        anns_field=field,
        filter=where,
        limit=asked.retrieve_k,
    )
    return [row["id"] for row in rows]


@pytest.mark.parametrize("seed", [1, 3, 6])
def test_rrf_is_the_formula_over_the_legs(index: MilvusIndex, engine: Engine, seed: int) -> None:
    ties_cut = 0
    for asked in fill_with_ties(index, seed):
        legs = [leg(engine, index, asked, field) for field in ("dense_vector", "sparse_vector")]
        expected = rrf(legs, k=asked.rrf_k)
        expected, beyond = expected[: asked.retrieve_k], expected[asked.retrieve_k :]
        ties_cut += bool(beyond) and beyond[0][1] == expected[-1][1]

        hits = index.search(asked)

        scores = [hit.scores.fused for hit in hits]
        assert scores == pytest.approx([score for _, score in expected], abs=TOLERANCE)
        assert [hit.id for hit in hits] == [key for key, _ in expected]
    assert ties_cut > 0  # else the seed does not test the cut; Lite 2.5.1 cuts these wrongly


def test_weighted_order_where_the_legs_agree(index: MilvusIndex) -> None:
    """Cosines so far apart that no reading of the BM25 score can turn them."""
    index.upsert_chunks(
        [
            chunk("first", 0, "word " * 6, vector=vector(1.0)),
            chunk("second", 0, "word " * 3 + "filler " * 3, vector=vector(0.0, 1.0)),
            chunk("third", 0, "filler " * 6, vector=vector(-1.0)),
        ]
    )

    hits = index.search(
        request("word", mode="hybrid", ranker="weighted", weight_dense=1.0, weight_sparse=0.4)
    )

    assert [hit.doc_id for hit in hits] == ["first", "second", "third"]


def test_weighted_scores_are_as_measured(index: MilvusIndex, engine: Engine) -> None:
    """If this fails on a new version, the table at the top of this file is out of date."""
    cosines = {f"doc{n}#chunk-0": n / 5 - 0.5 for n in range(6)}
    index.upsert_chunks(
        [
            chunk(f"doc{n}", 0, "word " * n + "filler " * 3, vector=vector(c, math.sqrt(1 - c * c)))
            for n, c in enumerate(cosines.values())
        ]
    )
    (rows,) = engine.client.search(
        index.collection, data=["word"], anns_field="sparse_vector", limit=10
    )
    bm25 = {row["id"]: abs(row["distance"]) for row in rows}
    assert len(bm25) == 5

    hits = index.search(
        request("word", mode="hybrid", ranker="weighted", weight_dense=0.7, weight_sparse=0.8)
    )

    def sparse_part(key: str) -> float:
        if key not in bm25:
            return 0.0
        part = 2 / math.pi * math.atan(bm25[key])
        return 1 - part if engine.version == "embedded" else part

    expected = {key: 0.7 * (1 + c) / 2 + 0.8 * sparse_part(key) for key, c in cosines.items()}
    assert {hit.id: hit.scores.fused for hit in hits} == pytest.approx(expected, abs=1e-5)
