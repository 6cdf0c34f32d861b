"""evaluation/fitting.py, calibration.py, labelled.py and core/calibration.py: V05."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize

from knowport import KnowledgeBase
from knowport.core.calibration import Calibration, Expired, Fingerprint, fingerprint
from knowport.core.calibration import dump_calibration as dump
from knowport.core.calibration import load_calibration as load
from knowport.core.chunking import ChunkingOptions
from knowport.core.relevance import Thresholds
from knowport.errors import ConfigurationError, InvalidInput
from knowport.evaluation import fitting
from knowport.evaluation.calibration import calibrate, store
from knowport.evaluation.fitting import Block, Sample
from knowport.evaluation.labelled import collect, read_labelled
from knowport.model import EmbedderIdentity
from support import HashEmbedder, make_folder, mark

CURRENT = Thresholds(0.5, 0.6, 0.7, lexical_weight=0.2)
EMBEDDER = EmbedderIdentity("hash", "bigrams", 64)
CHUNKING = ChunkingOptions()


def samples(right: list[float], wrong: list[float]) -> list[Sample]:
    """Samples with these cosines and no coverage."""
    return [
        Sample(f"{kind}{at}", answerable=kind, right=kind, blocks=(Block(value, 0.0),))
        for kind, values in ((True, right), (False, wrong))
        for at, value in enumerate(values)
    ]


def drawn(right: int, wrong: int, gap: float, seed: int = 1) -> list[Sample]:
    rng = np.random.default_rng(seed)
    return samples(
        rng.normal(0.6 + gap, 0.05, right).tolist(), rng.normal(0.6, 0.05, wrong).tolist()
    )


def test_too_few_data_are_refused() -> None:
    outcome = calibrate(samples([0.31, 0.42, 0.55], [0.29, 0.47, 0.61]), CURRENT, seed=1)
    assert outcome.thresholds is None
    assert outcome.refusal == "Too few data: 6 queries can be used; at least 15 are needed."
    outcome = calibrate(drawn(20, 4, 0.5), CURRENT, seed=1)
    assert outcome.thresholds is None
    assert "at least 5 of either kind" in outcome.refusal


@pytest.mark.parametrize("count", [10, 60])
def test_no_separation_is_refused_and_reported(count: int) -> None:
    outcome = calibrate(drawn(count, count, 0.0), CURRENT, seed=1)
    assert outcome.thresholds is None
    assert "No separation" in outcome.refusal
    assert outcome.report["auroc"]["low"] <= 0.5
    json.dumps(outcome.report, allow_nan=False)


def test_scores_that_speak_the_wrong_way_are_refused() -> None:
    outcome = calibrate(drawn(30, 30, -0.3), CURRENT, seed=1, keep_weight=True)
    assert outcome.thresholds is None


def test_a_few_separate_samples_are_enough() -> None:
    outcome = calibrate(drawn(10, 5, 0.3), CURRENT, seed=1)
    assert outcome.refusal == ""
    found = outcome.thresholds
    assert found is not None
    assert found.calibrated
    assert found.low < found.medium < found.high
    assert 0.6 < found.low < 0.9
    assert outcome.report["auroc"]["mean"] == 1.0
    assert outcome.report["held_out"]["refusal_precision"]["mean"] >= 0.9
    assert outcome.report["held_out"]["refusal_recall"]["mean"] >= 0.9
    coverage, risk = outcome.report["risk_coverage"][-1]
    assert (coverage, risk) == (1.0, pytest.approx(5 / 15))
    json.dumps(outcome.report, allow_nan=False)


def test_the_same_figures_every_time() -> None:
    data = drawn(40, 20, 0.1)
    assert calibrate(data, CURRENT, seed=3) == calibrate(data, CURRENT, seed=3)


def test_the_lexical_weight_is_fitted_or_kept() -> None:
    rng = np.random.default_rng(2)
    data = [
        Sample(str(n), True, n % 2 == 0, (Block(float(rng.normal(0.8, 0.02)), (n % 2 == 0) * 0.8),))
        for n in range(60)
    ]
    fitted = calibrate(data, CURRENT, seed=1).thresholds
    kept = calibrate(data, CURRENT, seed=1, keep_weight=True).thresholds
    assert fitted is not None
    assert kept is not None
    assert fitted.lexical_weight > 0.2
    assert kept.lexical_weight == 0.2


def test_a_score_is_the_best_block_with_its_offset() -> None:
    sample = Sample("q", True, True, (Block(0.7, 0.5), Block(0.75, 0.0, offset=0.1)))
    assert fitting.scores([sample], (0.2, 0.0)).tolist() == pytest.approx([0.85])
    assert fitting.scores([sample], (0.5, 0.0)).tolist() == pytest.approx([0.95])


def test_the_fit_is_scipys_optimum() -> None:
    rng = np.random.default_rng(4)
    x, right = rng.normal(0, 2, 50), rng.random(50) < 0.5
    intercept, slope, value = fitting.logistic(x, right)
    scale = x.std()

    def loss(beta: np.ndarray) -> float:
        z = beta[0] + beta[1] * (x - x.mean()) / scale
        return float(-(right * z - np.logaddexp(0, z)).sum() + 0.5 * beta[1] ** 2)

    theirs = scipy.optimize.minimize(loss, np.zeros(2), tol=1e-12)
    assert -value == pytest.approx(theirs.fun, abs=1e-8)
    assert slope == pytest.approx(theirs.x[1] / scale, abs=1e-5)
    assert intercept == pytest.approx(theirs.x[0] - slope * x.mean(), abs=1e-5)


def test_separable_data_have_a_finite_fit() -> None:
    fitted = fitting.fit(samples([0.9] * 10, [0.1] * 10))
    assert np.isfinite(fitted.slope)
    assert 0.1 < fitted.score_at(0.5) < 0.9
    assert fitted.probability(np.array([fitted.score_at(0.75)]))[0] == pytest.approx(0.75)
    constant = fitting.fit(samples([0.5] * 10, [0.5] * 10))
    assert fitting.thresholds(constant, 0.5, 0.0) is None


def test_auroc() -> None:
    right = np.array([True, True, False, False])
    assert fitting.auroc(np.array([3.0, 2.0, 1.0, 0.0]), right) == 1.0
    assert fitting.auroc(np.array([1.0, 0.0, 1.0, 0.0]), right) == 0.5
    assert fitting.auroc(np.array([1.0, 1.0, 1.0, 1.0]), right) == 0.5


# -- the stored form ------------------------------------------------------------------------


def printed(**changes: object) -> Fingerprint:
    values = {
        "embedder": EMBEDDER,
        "analyzer": {"tokenizer": "jieba"},
        "chunking": CHUNKING,
        "documents": [("a.md", "1"), ("b.md", "2")],
    }
    return fingerprint(**{**values, **changes})  # type: ignore[arg-type]


FITTED = Calibration(replace(CURRENT, calibrated=True), "default")


def test_stored_and_read_again() -> None:
    text = dump(FITTED, printed(), {"auroc": 0.9})
    assert load(text, printed()) == FITTED
    assert load(text, printed(documents=[("b.md", "2"), ("a.md", "1")])) == FITTED


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"embedder": replace(EMBEDDER, model="other")}, "embedder"),
        ({"analyzer": {"tokenizer": "standard"}}, "analyzer"),
        ({"chunking": ChunkingOptions(size=300)}, "chunking"),
        ({"documents": [("a.md", "1")]}, "corpus"),
        ({"documents": [("a.md", "1"), ("b.md", "3")]}, "corpus"),
    ],
)
def test_it_expires_and_names_what_changed(change: dict[str, object], named: str) -> None:
    found = load(dump(FITTED, printed(), {}), printed(**change))
    assert found == Expired(f"the {named} changed since")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 2}', "null", '{"format": 1, "fingerprint": {}}'],
)
def test_a_damaged_file_is_not_used(text: str) -> None:
    assert isinstance(load(text, printed()), Expired)


@pytest.mark.parametrize("low", [float("nan"), 0.65, 9.0])
def test_thresholds_that_make_no_sense_are_not_used(low: float) -> None:
    text = dump(FITTED, printed(), {}).replace('"low": 0.5', f'"low": {low}')
    assert isinstance(load(text, printed()), Expired)


# -- on a knowledge base --------------------------------------------------------------------

PAGES = {f"page{n}.md": f"# Page {n}\n\n{mark(n)}\n" for n in range(8)}
LABELLED = [{"text": mark(n), "documents": [f"page{n}.md"]} for n in range(8)] + [
    {"text": mark("absent", n), "documents": []} for n in range(8)
]


def labelled(folder: Path, rows: list[dict[str, object]]) -> Path:
    text = "\n".join(json.dumps(row) for row in rows)
    return make_folder(folder, {"labelled.jsonl": text}) / "labelled.jsonl"


def test_calibrated_until_the_corpus_changes(tmp_path: Path) -> None:
    home, docs = tmp_path / "home", make_folder(tmp_path / "docs", PAGES)
    queries = read_labelled(labelled(tmp_path, LABELLED))
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        kb.ingest(docs)
        assert not kb.run_lookup(mark(1)).calibrated
        collected = collect(kb, queries)
        assert collected.left_out == {}
        assert sum(sample.right for sample in collected.samples) == 8
        outcome = calibrate(collected.samples, kb.thresholds, seed=1)
        assert outcome.thresholds is not None, outcome.refusal
        store(home, outcome.thresholds, "default", kb.fingerprint(), outcome.report)
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert kb.thresholds == outcome.thresholds
        result = kb.run_lookup(mark(1))
        assert result.calibrated
        assert result.found
        assert not kb.run_lookup(mark("absent", 1)).found
        assert not kb.run_lookup(mark(1), kb_scope="elsewhere").calibrated
        assert kb.warnings == ()
        (docs / "new.md").write_text("# New\n\nA page more.\n")
        kb.ingest(docs)
        expired = kb.run_lookup(mark(1))
        assert not expired.calibrated
        assert [notice.code for notice in expired.notices] == ["calibration_expired"]
        assert "corpus changed" in kb.status().warnings[0]
        kb.delete("docs/new.md")
        assert kb.run_lookup(mark(1)).calibrated, "the corpus is again what it was fitted on"
    (home / "calibration.json").write_text("{")
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        assert not kb.run_lookup(mark(1)).calibrated
        assert "cannot be read" in kb.warnings[0]


def test_queries_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    docs = make_folder(tmp_path / "docs", PAGES)
    rows = [
        {"_id": "gone", "text": mark(1), "documents": ["not-there.md"]},
        {"_id": "long", "text": "x" * 5_000, "documents": []},
        {"_id": "whole", "text": mark(2), "evidence": [{"document": "docs/page2.md"}]},
        {"_id": "end", "text": mark(3), "documents": ["page3.md", "page3.md"]},
    ]
    with KnowledgeBase(tmp_path / "home", embedder=HashEmbedder()) as kb:
        kb.ingest(docs)
        collected = collect(kb, read_labelled(labelled(tmp_path, rows)))
    assert collected.left_out.keys() == {"gone", "long"}
    assert [(s.query_id, s.right) for s in collected.samples] == [("whole", True), ("end", True)]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"text": "x"}, "lists the documents"),
        ({"documents": []}, "'text'"),
        ({"text": " ", "documents": []}, "'text'"),
        ({"text": "x", "documents": "a.md"}, "lists the documents"),
        ({"text": "x", "documents": [""]}, "lists the documents"),
        ({"text": "x", "evidence": ["a.md"]}, "lists the documents"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, row: dict[str, object], what: str) -> None:
    good: dict[str, object] = {"text": "x", "documents": []}
    with pytest.raises(InvalidInput, match=what) as caught:
        read_labelled(labelled(tmp_path, [good, row]))
    assert "labelled.jsonl:2" in caught.value.message


def test_no_query_and_two_of_one_id(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no query"):
        read_labelled(labelled(tmp_path / "a", []))
    row: dict[str, object] = {"id": 1, "text": "x", "documents": []}
    with pytest.raises(InvalidInput, match="second time"):
        read_labelled(labelled(tmp_path / "b", [row, row]))


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written"):
        store(tmp_path / "nowhere", CURRENT, "default", printed(), {})
