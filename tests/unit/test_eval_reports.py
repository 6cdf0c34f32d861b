"""evaluation/summary.py, tables.py, reports.py, html.py, svg.py, named.py, setups.py."""

from __future__ import annotations

import builtins
import json
import re
import xml.dom.minidom
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from knowport.errors import ConfigurationError, InvalidInput
from knowport.evaluation import named, reports, setups, summary, svg, tables
from knowport.evaluation.datasets import Dataset, Query
from knowport.evaluation.measures import ChunkSpan
from knowport.evaluation.records import QueryRun
from knowport.evaluation.runs import SetRun, Setup
from knowport.evaluation.scratch import Prepared
from knowport.model import EmbedderIdentity, Status
from knowport.settings import Settings

TEXTS = ["plain", "<script>alert('x')</script> & | pipe", "中文 🚑", "none", "failed"]
DATASET = Dataset(
    name="a <set>",
    folder=Path("set"),
    queries=tuple(
        Query(f"q{n}", text, {"group": "a|b" if n < 2 else "overall"})
        for n, text in enumerate(TEXTS)
    ),
    gold={"q0": {"a": 1}, "q1": {"a": 1, "gone": 2}, "q2": {"b": 1}, "q4": {"b": 1}},
    spans={},
    corpus=None,
    fingerprint="f" * 64,
    unknown_queries=("q99",),
)


def run(number: int, documents: list[str], *, found: bool = True, **more: Any) -> QueryRun:
    return QueryRun(
        f"q{number}",
        documents=tuple(documents),
        returned=tuple(ChunkSpan(d, 0, 9) for d in documents) if found else (),
        evidence=tuple(f"{d}#chunk-0" for d in documents) if found else (),
        unfiltered_documents=tuple(documents),
        found=found,
        score=more.pop("score", 0.9 - number / 10),
        attempts=("filtered", "unfiltered") if number == 0 else ("unfiltered",),
        milliseconds={"embed": 10.0 + number, "total": 12.0 + number},
        **more,
    )


RUNS = (
    run(0, ["a", "b"]),
    run(1, ["b", "a"], answers=(ChunkSpan("a", 3, 5),), chunks_with_answer=1),
    run(2, [], score=None, found=False),
    run(3, ["a"], found=False),
    QueryRun("q4", error="The vector is not finite."),
)


def set_run(name: str = "one", runs: tuple[QueryRun, ...] = RUNS) -> SetRun:
    identity = EmbedderIdentity("hash", "bigrams", 64)
    status = Status("h", "m", "Lite", "g1", "biz", identity, "default", 2, 2, (), 0, ())
    prepared = Prepared({"d/a": "a", "d/b": "b"}, 2, {"c.md": "not_utf8: x"}, "c" * 64, 0, 0.1)
    return SetRun(Setup(name, Settings()), prepared, status, False, runs)


def report(*runs: SetRun, by: str | None = "group") -> dict[str, Any]:
    return reports.build_report(
        DATASET,
        runs,
        [summary.query_values(DATASET, each.queries) for each in runs],
        by=by,
        seed=1,
        versions={"knowport": "0"},
        created_at="2026-01-01T00:00:00+00:00",
    )


OTHER = set_run("two", (run(0, ["b", "a"]), *RUNS[1:]))


def test_figures() -> None:
    figures = report(set_run())["setups"][0]["figures"]
    assert list(figures) == ["overall", "a|b", "overall (group)"]
    overall = figures["overall"]
    assert overall["R@10"]["n"] == 4, (
        "the failed and the unanswered stay, the one without gold goes"
    )
    assert overall["R@10"]["mean"] == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    assert overall["RR@10"]["mean"] == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    assert overall["AbstentionPrecision"]["mean"] == pytest.approx(1 / 3)
    assert overall["AbstentionRecall"] == {"mean": 1.0, "low": 1.0, "high": 1.0, "n": 1}
    assert overall["SpanHit@5"] == {"mean": 1.0, "low": None, "high": None, "n": 1}


def test_behaviour_and_latency() -> None:
    setup = report(set_run())["setups"][0]
    counts = setup["behaviour"]["overall"]
    assert (counts["errors"], counts["refused"], counts["refused_answerable"]) == (1, 3, 2)
    assert (counts["fell_back"], counts["rescued"]) == (1, 1)
    assert setup["latency_ms"]["total"] == {"p50": 13.5, "p95": pytest.approx(14.85)}


def test_risk_coverage() -> None:
    # q0 0.9 right, q1 0.8 right, q3 0.6 wrong; the others have no score and are never answered
    curve = summary.risk_coverage(DATASET, RUNS)
    assert curve == [(0.2, 0.0), (0.4, 0.0), (0.6, pytest.approx(1 / 3))]
    tied = summary.risk_curve([(0.5, False), (0.5, True)], 2)
    assert tied == [(1.0, 0.5)], "equal scores enter together, whatever their order"


def test_warnings_name_what_is_missing() -> None:
    text = " ".join(tables.warnings(report(set_run())))
    for part in ("gone", "q99", "c.md (not_utf8", "q4: The vector is not finite."):
        assert part in text


def test_comparison_and_changes() -> None:
    compared = report(set_run(), OTHER)["comparison"]
    row = compared["groups"]["overall"]["RR@10"]
    assert (row["wins"], row["losses"], row["ties"], row["queries"]) == (0, 1, 3, 4)
    assert row["delta"] == pytest.approx(-0.125)
    assert [change["query_id"] for change in compared["changes"]] == ["q0"]
    assert compared["changes"][0]["delta"] < 0


def test_at_most_ten_changes_largest_first() -> None:
    queries = [Query(f"q{n:02}", "t") for n in range(20)]
    a = [{"m": 0.0} for _ in queries]
    b = [{"m": n / 20} for n in range(20)]
    found = summary.changes(queries, a, b, "m")
    assert [row["query_id"] for row in found] == [f"q{n}" for n in range(19, 9, -1)]


def test_json_has_no_nan_and_markdown_stays_a_table() -> None:
    made = report(set_run(), OTHER)
    assert json.loads(reports.to_json(made)) == json.loads(json.dumps(made))
    assert "NaN" not in reports.to_json(made)
    text = reports.to_markdown(made)
    for line in (line for line in text.splitlines() if line.startswith("| a\\|b")):
        assert line.endswith(" |")
    assert "<script>" not in text
    for part in ("seed: 1", "f" * 64, "knowport 0", '"retrieve_k": 20'):
        assert part in text


class Page(HTMLParser):
    """Collects what would load something, and whether every element is closed."""

    VOID = ("meta", "br", "rect", "line")

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in {"src", "href", "srcset"}]
        if tag == "script":
            self.loads.append("script")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_stands_alone() -> None:
    text = reports.files(report(set_run(), OTHER))["report.html"]
    page = Page()
    page.feed(text)
    assert page.loads == []
    assert page.open == []
    assert "default-src 'none'" in text
    assert "url(" not in text
    assert "&lt;script&gt;" in text
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) >= 5
    for drawing in drawings:
        xml.dom.minidom.parseString(drawing)
    for part in ("nDCG@10 by group", "Latency", "Risk against coverage", "Largest changes"):
        assert part in text


def test_plots_of_nothing() -> None:
    for drawing in (
        svg.grouped_bars("t", [], {}),
        svg.grouped_bars("t", ["a"], {"s": [None]}),
        svg.lines("t", {"s": []}, "x", "y"),
        svg.stacked("t", {"s": {}}, "ms"),
        svg.changes("t", []),
    ):
        xml.dom.minidom.parseString(drawing)


def test_other_measures_by_name() -> None:
    values = summary.query_values(DATASET, RUNS, ["AP@10", "R@1"])
    assert [found.get("AP@10") for found in values] == [1.0, 0.25, 0.0, None, 0.0]


@pytest.mark.parametrize("name", ["nonsense", "nDCG@", "R@x", "__import__('os')", ""])
def test_names_that_are_no_measure(name: str) -> None:
    with pytest.raises(InvalidInput, match="no measure"):
        named.check_names([name])


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "ir_measures":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    named.check_names(["nDCG@10", "R@20"])  # ours
    with pytest.raises(ConfigurationError, match="extra `eval`") as caught:
        named.check_names(["AP@10"])
    assert "knowport[eval]" in caught.value.remedy


def test_setups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert setups.setup("dense", {}).settings.retrieval.search.mode == "dense"
    assert setups.setup("rrf", {}).settings.retrieval.hybrid.ranker == "rrf"
    bm25 = setups.setup("bm25", {})
    assert bm25.mode == "sparse"
    assert "no setting of the product" in bm25.note
    (tmp_path / "wide.toml").write_text("[rag]\nretrieve_k = 50\n")
    wide = setups.setup("wide.toml", {"home": tmp_path})
    assert (wide.name, wide.settings.rag.retrieve_k) == ("wide", 50)
    assert setups.configured({}).name == "hybrid"
    with pytest.raises(InvalidInput, match="No setup is called"):
        setups.setup("fast", {})
    with pytest.raises(ConfigurationError, match="no file"):
        setups.setup("none.toml", {})
    (tmp_path / "bad.toml").write_text("[rag]\nretrieve_kk = 50\n")
    with pytest.raises(ConfigurationError, match="retrieve_kk"):
        setups.setup("bad.toml", {})
