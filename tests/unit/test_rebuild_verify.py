"""What is proved of a new index before it is switched to, and what stops the switch."""

from __future__ import annotations

from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.pipelines.rebuild_ports import Lookup, Verdict
from rebuilds import assert_answers, assert_clean, doc_id, refused, states, text_of
from support import mark


def test_only_what_is_verified_is_switched_to(kb: KnowledgeBase) -> None:
    name = kb.rebuild.start().generation
    refused(kb.rebuild.activate, f"{name} is not verified", "--force")
    assert kb.status().generation == "g1"
    switch = kb.rebuild.activate(force=True)
    assert (switch.generation, switch.forced) == (name, True)
    stored = kb.rebuild.status().generations[1].generation
    assert (stored.state, stored.forced, dict(stored.report)) == ("active", True, {})


def test_lost_and_stray_rows_stop_the_switch_and_the_next_run_mends_them(
    kb: KnowledgeBase,
) -> None:
    kb.rebuild.start()
    new = kb._parts.generations.index_of(kb.rebuild.status().generations[1].generation)
    old = kb._parts.index
    assert old is not None
    new.delete_by_doc_id(doc_id(1), from_index=2)
    kb.put("kb/extra.md", text_of(80))
    rows = _rows(kb, "kb/extra.md")
    kb.delete("kb/extra.md")
    new.upsert_chunks(rows)

    error = refused(kb.rebuild.run, "missing", f"{doc_id(1)}#chunk-2", "ghost", "kb/extra.md")
    assert "mends" in error.remedy
    assert states(kb) == ["active", "built"]
    refused(kb.rebuild.activate, "is not verified: ", "missing", "ghost")
    run = kb.rebuild.run()
    assert (run.build.documents, run.build.removed) == (1, 1)
    assert run.switch is not None
    assert not run.switch.forced
    assert_clean(kb)


def test_rows_lost_after_the_verification_stop_the_switch(kb: KnowledgeBase) -> None:
    kb.rebuild.start()
    kb.rebuild.verify()
    chunks = kb.status().chunks
    new = kb._parts.generations.index_of(kb.rebuild.status().generations[1].generation)
    new.delete_by_doc_id(doc_id(1), from_index=3)
    refused(kb.rebuild.activate, f"holds {new.count()} chunks, and {chunks} were built")
    assert kb.status().generation == "g1"
    refused(kb.rebuild.run, "missing")
    kb.rebuild.run()
    assert_clean(kb)


def test_a_judge_may_stop_the_switch(kb: KnowledgeBase) -> None:
    seen: list[tuple[str, str]] = []

    def judge(active: Lookup, new: Lookup) -> Verdict:
        results = active(mark("first", 1, 0, 0)), new(mark("first", 1, 0, 0))
        seen.append((results[0].generation, results[1].generation))
        assert results[0].found
        assert results[1].found
        return Verdict(("it is a Friday",), {"day": "Friday"})

    refused(lambda: kb.rebuild.run(judge=judge), "it is a Friday", "--force")
    rows = kb.rebuild.status().generations
    assert seen == [("g1", rows[1].generation.name)]
    assert rows[1].generation.report["judge"] == {"day": "Friday"}
    switch = kb.rebuild.run(judge=judge, force=True).switch
    assert switch is not None
    assert switch.forced
    stored = kb.rebuild.status().generations[1].generation
    assert (stored.forced, stored.report["failures"]) == (True, ["it is a Friday"])


def test_a_broken_analyzer_is_stopped_without_any_labels(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof of the analyzer, which would refuse it before, is taken away here."""
    from knowport.adapters.milvus import schema
    from knowport.bootstrap import generations

    with monkeypatch.context() as broken:
        for module in (schema, generations):
            broken.setattr(module, "ANALYZER", {"tokenizer": "whitespace"})
        refused(kb.rebuild.run, "by a han word", "by a latin word", "the analyzer does worse")
        assert states(kb) == ["active", "built"]
        assert_answers(kb, 2)
    refused(kb.rebuild.run, "with other settings", "analyzer was {'tokenizer': 'whitespace'}")
    kb.rebuild.abort()
    assert kb.rebuild.run().switch is not None


def _rows(kb: KnowledgeBase, name: str) -> list[Any]:
    """Chunks of a document as they are stored."""
    from knowport.pipelines.replace import cut
    from knowport.pipelines.vectors import Vectors

    serving = kb._parts.serving
    document = kb._parts.ledger.document_text(name)
    assert document is not None
    whole = cut(document, serving.chunking)
    vectors = Vectors(serving.embedder, kb._parts.ledger)
    vectors.fill(dict(zip(whole.hashes, whole.texts, strict=True)), keys=whole.keys)
    return whole.indexed(vectors.known)
