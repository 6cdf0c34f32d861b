"""evaluation/measures.py against the tools everybody uses, and its bounds."""

from __future__ import annotations

import math

import ir_measures
import numpy as np
import pytest
import pytrec_eval
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from knowport.evaluation import measures, named, statistics
from knowport.evaluation.measures import ChunkSpan

DOCUMENTS = [f"d{number}" for number in range(30)]
NAMES = ("nDCG@10", "nDCG@3", "R@1", "R@5", "R@10", "RR@10")

rankings = st.lists(st.sampled_from(DOCUMENTS), max_size=25, unique=True)
golds = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(1, 3), min_size=1, max_size=12)


def as_scores(ranking: list[str]) -> dict[str, float]:
    return {doc_id: float(len(ranking) - rank) for rank, doc_id in enumerate(ranking)}


@settings(max_examples=300, deadline=None)
@given(ranking=rankings, gold=golds)
def test_equal_to_pytrec_eval(ranking: list[str], gold: dict[str, int]) -> None:
    evaluator = pytrec_eval.RelevanceEvaluator(
        {"q": gold}, {"ndcg_cut.10", "ndcg_cut.3", "recall.1,5,10"}
    )
    theirs = {"ndcg_cut_10": 0.0, "ndcg_cut_3": 0.0, "recall_1": 0.0, "recall_5": 0.0}
    if ranking:  # they know no empty result
        theirs = evaluator.evaluate({"q": as_scores(ranking)})["q"]
    ours = {name: measures.ranking_measure(name, ranking, gold) for name in NAMES}
    assert ours["nDCG@10"] == pytest.approx(theirs["ndcg_cut_10"], abs=1e-12)
    assert ours["nDCG@3"] == pytest.approx(theirs["ndcg_cut_3"], abs=1e-12)
    assert ours["R@1"] == pytest.approx(theirs["recall_1"], abs=1e-12)
    assert ours["R@5"] == pytest.approx(theirs["recall_5"], abs=1e-12)


def test_equal_to_ir_measures_on_random_runs() -> None:
    """A thousand queries with graded relevance, unanswered and unjudged ones among them."""
    rng = np.random.default_rng(20_240_601)
    gold, runs = {}, {}
    for number in range(1_000):
        size = int(rng.integers(0, 25))
        runs[f"q{number}"] = list(rng.permutation(DOCUMENTS)[:size])
        chosen = rng.permutation(DOCUMENTS)[: int(rng.integers(0, 8))]
        gold[f"q{number}"] = {str(doc_id): int(rng.integers(1, 4)) for doc_id in chosen}
    judged = {query_id: of_query for query_id, of_query in gold.items() if of_query}
    for name in NAMES:
        ours = {q: measures.ranking_measure(name, runs[q], judged[q]) for q in judged}
        theirs = named.values(name, runs, gold)
        assert theirs.keys() == judged.keys(), "an unanswered query stays, one without gold goes"
        assert ours == pytest.approx(theirs, abs=1e-12)
    # And their own mean, over queries that they all know.
    answered = {q: as_scores(runs[q]) for q in judged if runs[q]}
    theirs = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(name) for name in NAMES],
        {q: judged[q] for q in answered},
        answered,
    )
    for measure, value in theirs.items():
        ours = [measures.ranking_measure(str(measure), runs[q], judged[q]) for q in answered]
        assert float(np.mean(ours)) == pytest.approx(value, abs=1e-12)


@given(
    ranking=st.lists(st.sampled_from(DOCUMENTS), max_size=40),
    gold=golds,
    k=st.integers(1, 50),
)
def test_a_document_counts_once_and_values_stay_in_bounds(
    ranking: list[str], gold: dict[str, int], k: int
) -> None:
    for name in (f"nDCG@{k}", f"R@{k}", f"RR@{k}"):
        value = measures.ranking_measure(name, ranking, gold)
        assert value is not None
        assert 0.0 <= value <= 1.0
        assert value == measures.ranking_measure(name, measures.distinct(ranking), gold)


spans = st.builds(
    lambda doc_id, start, size: ChunkSpan(doc_id, start, start + size),
    st.sampled_from(DOCUMENTS[:4]),
    st.integers(0, 50),
    st.integers(1, 20),
)


@given(
    returned=st.lists(spans, max_size=8),
    answers=st.lists(spans, max_size=5),
    held=st.integers(0, 5),
)
def test_evidence_measures_stay_in_bounds(
    returned: list[ChunkSpan], answers: list[ChunkSpan], held: int
) -> None:
    gold = {span.doc_id: 1 for span in answers}
    values = measures.evidence_measures(returned, gold, answers, held)
    assert all(0.0 <= value <= 1.0 and not math.isnan(value) for value in values.values())
    assert ("SpanHit@5" in values) == bool(answers)
    if answers:
        assert values["SpanHit@5"] == float(values["SpanRecall@5"] > 0)


@settings(deadline=None, max_examples=30)
@given(
    differences=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=9)
)
def test_the_exact_randomisation_test_is_scipys(differences: list[float]) -> None:
    p_value, exact = statistics.randomisation_test(differences, seed=1)
    assert exact
    assert 0 < p_value <= 1
    if any(differences):
        theirs = scipy.stats.permutation_test(
            (np.array(differences), np.zeros(len(differences))),
            lambda a, b, axis=-1: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=10_000,
        )
        assert p_value == pytest.approx(theirs.pvalue)


def test_the_drawn_randomisation_test_is_near_scipys() -> None:
    differences = np.random.default_rng(5).normal(0.15, 0.5, 40)
    p_value, exact = statistics.randomisation_test(differences.tolist(), seed=1)
    theirs = scipy.stats.permutation_test(
        (differences, np.zeros(40)),
        lambda a, b, axis=-1: np.mean(a - b, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=np.random.default_rng(2),
    )
    assert not exact
    assert p_value == pytest.approx(theirs.pvalue, abs=0.01)
