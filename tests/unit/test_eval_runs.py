"""evaluation/scratch.py, runs.py and harness.py over small sets and the embedded engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowport.errors import ConfigurationError, EngineError
from knowport.evaluation import tables
from knowport.evaluation.datasets import CorpusDocument, Dataset, read_dataset
from knowport.evaluation.harness import evaluate
from knowport.evaluation.runs import Setup, Stopped, run_set
from knowport.evaluation.scratch import document_id, front_matter
from knowport.knowledge_base import KnowledgeBase
from knowport.model import Matrix, SearchMode, Vector
from knowport.settings import Settings
from support import HashEmbedder, make_folder, mark

ODD_IDS = [
    "plain",
    "a/b/c.md",
    "../up",
    "..",
    "a//b",
    "/rooted/",
    "x#chunk-3",
    "空 格 🚑",
    "cafe\u0301",
    "caf\u00e9",
    "50%25",
    "50%2525",
    "long" * 200,
    "quote\"'\\",
    "CASE",
    "case",
]


def settings(folder: Path, **values: Any) -> Settings:
    return Settings(home=folder / "home", **values)


def lines(rows: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def corpus_set(folder: Path, *, spans: str = "") -> Dataset:
    """One document and one question for each odd id, and a question without an answer."""
    documents = [
        {
            "id": name,
            "title": f"Title: {n}",
            "text": f"# H\n\n{mark(n)}\r\n\r\nThe end.",
            "category": "c",
        }
        for n, name in enumerate(ODD_IDS)
    ]
    queries = [{"id": f"q{n}", "text": mark(n), "group": "odd"} for n in range(len(ODD_IDS))]
    queries.append({"id": "none", "text": mark("none"), "group": "none"})
    files = {
        "corpus.jsonl": lines(documents),
        "queries.jsonl": lines(queries),
        "qrels.tsv": "".join(f"q{n}\t{name}\t1\n" for n, name in enumerate(ODD_IDS)),
    }
    if spans:
        files["qrels_spans.tsv"] = spans
    return read_dataset(make_folder(folder / "odd", files))


def measured(dataset: Dataset, folder: Path, **more: Any) -> dict[str, Any]:
    given = {"embedder": HashEmbedder(), "seed": 1, **more}
    return evaluate(dataset, [Setup("default", settings(folder))], folder / "work", **given)


def test_corpus_ids_come_back_one_to_one(tmp_path: Path) -> None:
    dataset = corpus_set(tmp_path)
    assert len({document_id(dataset, name) for name in ODD_IDS}) == len(ODD_IDS)
    report = measured(dataset, tmp_path, by="group")
    figures = report["setups"][0]["figures"]
    assert figures["overall"]["R@1"] == {"mean": 1.0, "low": 1.0, "high": 1.0, "n": len(ODD_IDS)}
    assert figures["none"]["R@1"]["mean"] is None
    assert report["set"]["documents"] == len(ODD_IDS)
    assert report["set"]["unanswerable"] == 1
    assert tables.warnings(report) == []


def test_title_and_category_reach_the_index(tmp_path: Path) -> None:
    dataset = corpus_set(tmp_path)
    measured(dataset, tmp_path)
    (home,) = (tmp_path / "work").iterdir()
    with KnowledgeBase(home, embedder=HashEmbedder()) as kb:
        info, document = kb.document(document_id(dataset, "a/b/c.md"))
        assert (info.title, info.category) == ("Title: 1", "c")
        assert "The end." in document.text
    assert front_matter(CorpusDocument("x", "", "text")) == ""


def test_spans_count_in_the_text_of_the_corpus(tmp_path: Path) -> None:
    """Front matter before it and line ends that are folded shift nothing."""
    text = f"# H\n\n{mark(3)}\r\n\r\nThe end."
    start = text.index("The end")
    dataset = corpus_set(tmp_path, spans=f"q3\t{ODD_IDS[3]}\t{start}\t{start + 3}\n")
    run = run_set(dataset, Setup("s", settings(tmp_path)), tmp_path / "w", embedder=HashEmbedder())
    asked = next(query for query in run.queries if query.query_id == "q3")
    (answer,) = asked.answers
    with KnowledgeBase(next((tmp_path / "w").iterdir()), embedder=HashEmbedder()) as kb:
        _, document = kb.document(document_id(dataset, ODD_IDS[3]))
    assert document.text[answer.start : answer.end] == "The"
    assert asked.chunks_with_answer == 1


def test_the_same_figures_after_a_restart_and_nothing_embedded_twice(tmp_path: Path) -> None:
    dataset, embedder = corpus_set(tmp_path), HashEmbedder()
    first = measured(dataset, tmp_path, by="group", embedder=embedder)
    made = embedder.documents_embedded
    second = measured(dataset, tmp_path, by="group", embedder=embedder)
    assert embedder.documents_embedded == made
    for name in ("figures", "behaviour", "queries", "risk_coverage", "corpus_fingerprint"):
        assert json.dumps(first["setups"][0][name]) == json.dumps(second["setups"][0][name])
    assert first["set"] == second["set"]


def test_a_changed_corpus_leaves_no_ghosts(tmp_path: Path) -> None:
    measured(corpus_set(tmp_path), tmp_path)
    smaller = make_folder(
        tmp_path / "odd",
        {
            "corpus.jsonl": lines([{"id": "only", "text": mark(1)}]),
            "queries.jsonl": lines([{"id": "q", "text": mark(1)}]),
            "qrels.tsv": "q\tonly\t1\nq\tgone\t1\n",
        },
    )
    report = measured(read_dataset(smaller), tmp_path)
    assert report["set"]["documents"] == 1
    assert report["set"]["gold_not_in_index"] == {"q": ["gone"]}
    figures = report["setups"][0]["figures"]["overall"]
    assert figures["R@10"] == {"mean": 0.5, "low": None, "high": None, "n": 1}
    assert "1 relevant documents of 1 queries are not in the index: gone." in tables.warnings(
        report
    )


def files_set(folder: Path) -> Dataset:
    pages = {
        f"docs/page{n}.md": f"# Page {n}\n\nIntro.\n\n## Part\n\n{mark(n)}\n" for n in range(4)
    }
    text = pages["docs/page1.md"]
    start = text.index(mark(1))
    labels = {
        "queries.jsonl": lines({"_id": f"q{n}", "text": mark(n)} for n in range(4)),
        "qrels.tsv": "query-id\tcorpus-id\tscore\n"
        + "".join(f"q{n}\tdocs/page{n}.md\t1\n" for n in range(4)),
        "qrels_spans.tsv": f"q1\tdocs/page1.md\t{start}\t{start + 5}\n",
        "empty.md": "",
    }
    return read_dataset(make_folder(folder / "pages", {**pages, **labels}))


@pytest.mark.parametrize("mode", ["dense", "sparse", "hybrid"])
def test_a_folder_of_files_in_every_mode(tmp_path: Path, mode: SearchMode) -> None:
    dataset = files_set(tmp_path)
    setup = Setup(mode, settings(tmp_path), mode)
    report = evaluate(dataset, [setup], tmp_path / "work", seed=1, embedder=HashEmbedder())
    figures = report["setups"][0]["figures"]["overall"]
    assert figures["nDCG@10"]["mean"] == 1.0
    assert figures["SpanHit@5"] == {"mean": 1.0, "low": None, "high": None, "n": 1}
    assert list(report["set"]["not_indexed"]) == ["empty.md"]
    assert report["setups"][0]["latency_ms"]["total"]["p95"] > 0


def test_two_setups_are_compared(tmp_path: Path) -> None:
    dataset = files_set(tmp_path)
    chosen = [Setup("s", settings(tmp_path), "dense"), Setup("s", settings(tmp_path))]
    report = evaluate(dataset, chosen, tmp_path / "w", seed=1, embedder=HashEmbedder())
    assert [setup["name"] for setup in report["setups"]] == ["s 1", "s 2"]
    row = report["comparison"]["groups"]["overall"]["nDCG@10"]
    assert (row["queries"], row["wins"], row["losses"], row["ties"]) == (4, 0, 0, 4)
    assert row["p_value"] == 1.0


class Broken(HashEmbedder):
    """Gives NaN for one text."""

    def __init__(self, text: str) -> None:
        super().__init__(batch_size=1)
        self._text = text

    def embed_query(self, text: str) -> Vector:
        vector = super().embed_query(text)
        return vector * np.float32("nan") if self._text in text else vector

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return np.stack([self.embed_query(text) for text in texts])


def test_nan_from_an_embedder_is_counted_and_goes_into_no_figure(tmp_path: Path) -> None:
    """The page is not indexed, its question fails in dense mode, and the rest goes on."""
    dataset = files_set(tmp_path)
    setup = Setup("dense", settings(tmp_path), "dense")
    embedder = Broken(mark(2))
    report = evaluate(dataset, [setup], tmp_path / "work", seed=1, embedder=embedder)
    measured_setup = report["setups"][0]
    assert list(measured_setup["errors"]) == ["q2"]
    assert measured_setup["behaviour"]["overall"]["errors"] == 1
    assert measured_setup["figures"]["overall"]["R@1"]["mean"] == 0.75, "a failed query scores 0"
    assert report["set"]["gold_not_in_index"] == {"q2": ["docs/page2.md"]}
    assert "docs/page2.md" in report["set"]["not_indexed"]
    json.dumps(report, allow_nan=False)
    hybrid = evaluate(
        dataset, [Setup("h", settings(tmp_path))], tmp_path / "work", seed=1, embedder=embedder
    )
    assert hybrid["setups"][0]["behaviour"]["overall"]["degraded"] == 1
    assert any("one leg failed" in text for text in tables.warnings(hybrid))


def test_only_unanswerable_queries(tmp_path: Path) -> None:
    folder = make_folder(
        tmp_path / "none",
        {
            "a.md": "# A\n\nText.\n",
            "queries.jsonl": lines([{"_id": "q", "text": "x"}]),
            "qrels.tsv": "",
        },
    )
    report = measured(read_dataset(folder), tmp_path)
    figures = report["setups"][0]["figures"]["overall"]
    assert "nDCG@10" not in figures
    assert figures["AbstentionRecall"]["n"] == 1
    assert tables.tables(report)


def test_it_stops_when_asked_and_goes_on_later(tmp_path: Path) -> None:
    dataset, asked = files_set(tmp_path), iter([False] * 3 + [True] * 99)
    with pytest.raises(Stopped):
        measured(dataset, tmp_path, should_stop=lambda: next(asked))
    assert measured(dataset, tmp_path)["setups"][0]["figures"]["overall"]["R@1"]["mean"] == 1.0


def test_what_serves_is_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Milvus server and a PostgreSQL ledger in the settings are not even asked."""
    chosen = settings(
        tmp_path,
        milvus={"uri": "http://127.0.0.1:9", "timeout": 1},
        ledger={"url": "postgresql+psycopg://nobody@127.0.0.1:9/x"},
    )
    report = evaluate(
        files_set(tmp_path), [Setup("s", chosen)], tmp_path / "w", seed=1, embedder=HashEmbedder()
    )
    assert report["set"]["documents"] == 4
    assert not (tmp_path / "home").exists()


def test_settings_that_only_a_server_can_serve(tmp_path: Path) -> None:
    chosen = settings(
        tmp_path,
        milvus={"uri": "http://127.0.0.1:9"},
        retrieval={"hybrid": {"ranker": "weighted"}},
    )
    with pytest.raises(ConfigurationError, match="embedded engine"):
        run_set(files_set(tmp_path), Setup("s", chosen), tmp_path / "w", embedder=HashEmbedder())


def test_a_failing_engine_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EngineError("away")

    monkeypatch.setattr("knowport.knowledge_base.lookup", fail)
    with pytest.raises(EngineError):
        measured(files_set(tmp_path), tmp_path)
