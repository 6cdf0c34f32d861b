"""What is proved of a new index before it is switched to, and what stops the switch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from knowport import KnowledgeBase
from knowport.adapters.milvus import Engine, MilvusIndex
from knowport.bootstrap.generations import Generations
from knowport.entrypoints.judging import judge_of
from knowport.entrypoints.rebuild_output import verify_json, verify_text
from knowport.errors import EmbeddingUnavailable, EngineError, EngineUnavailable
from knowport.evaluation.labelled import LabelledQuery
from knowport.model import SearchHit, SearchRequest, Vector
from knowport.pipelines.audit import ExpectedDocument
from knowport.pipelines.rebuild_ports import Judge, Lookup, RebuildProgress, Verdict
from rebuilds import Base, assert_answers, assert_clean, doc_id, refused, states, text_of
from support import HashEmbedder, mark


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


# -- an active generation that cannot be compared with ---------------------------------------------


@pytest.fixture
def unlexical(base: Base, monkeypatch: pytest.MonkeyPatch) -> Base:
    """A base whose generation was made on an engine without BM25; the engine of now has it."""
    real = Generations.connected

    def older(self: Generations) -> Engine:
        return replace(real(self), lexical=False)

    with monkeypatch.context() as patch:
        patch.setattr(Generations, "connected", older)
        base.open(settings=_mode("dense")).close()
        with base.open(settings=_mode("dense")) as kb:
            kb.ingest(base.pages, source="kb")
            assert not kb.rebuild.status().generations[0].generation.lexical
    return base


@pytest.mark.parametrize(
    ("mode", "judged", "why"),
    [
        ("dense", True, ""),
        ("dense", False, "it has no lexical index"),
        ("hybrid", True, "has no BM25 field"),
    ],
)
def test_an_index_from_an_engine_without_words_can_be_rebuilt(
    unlexical: Base, mode: str, judged: bool, why: str
) -> None:
    with unlexical.open(settings=_mode(mode)) as kb:
        run = kb.rebuild.run(judge=_judge(kb, range(3)) if judged else None, sample=3)
        assert run.verify is not None
        report = run.verify.report
        assert report["found_by_words"] == {}
        assert ("judge" in report, report["against"]) == (not why, "" if why else "g1")
        assert why in report["not_compared"]
        assert_clean(kb)


def test_a_damaged_active_generation_does_not_stop_the_rebuild_that_mends_it(
    kb: KnowledgeBase,
) -> None:
    index, engine = kb._parts.index, kb._parts.engine
    assert isinstance(index, MilvusIndex)
    assert engine is not None
    engine.client.release_collection(index.collection)
    engine.client.drop_index(index.collection, "sparse_vector")

    run = kb.rebuild.run(judge=_judge(kb, range(3)), sample=3)

    assert run.verify is not None
    report = run.verify.report
    assert (report["against"], report["found_by_words"], "judge" in report) == ("", {}, False)
    assert "Milvus failed on searching" in report["not_compared"]
    said = verify_text(verify_json(run.verify)).splitlines()
    assert said[1].startswith("Lookups were not compared with the active generation: Milvus failed")
    assert_clean(kb)


DAMAGED = EngineError("Milvus failed: a segment is lost.")
AWAY = EngineUnavailable("Milvus cannot be reached.")


def test_labelled_questions_that_cannot_be_asked_of_the_active_generation(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.filled().close()
    with base.open(settings=_mode("dense")) as kb:
        kb.rebuild.start()
        _break(monkeypatch, lambda index, request: "_g1" in index and request.mode == "dense")
        report = kb.rebuild.verify(judge=_judge(kb, range(3)), sample=3)
    assert (report.passed, report.report["against"]) == (True, "")
    assert report.report["not_compared"] == "Milvus failed: a segment is lost"
    assert "judge" not in report.report


def test_a_failure_of_the_moment_is_no_damage(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.rebuild.start()
    calls: list[str] = []

    def first(index: str, request: SearchRequest) -> bool:
        calls.extend([index] if "_g1" in index else [])
        return calls == [index]

    _break(monkeypatch, first, AWAY)
    report = kb.rebuild.verify(sample=3).report
    assert len(calls) > 1
    assert (report["against"], report["not_compared"]) == ("g1", "")
    assert report["found_by_words"]["latin"] == {"active": 3, "new": 3}


def test_an_engine_that_fails_is_not_a_damaged_active_generation(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.rebuild.start()
    down: list[str] = []

    def from_then_on(index: str, _: SearchRequest) -> bool:
        down.extend([index] if "_g1" in index else [])
        return bool(down)

    _break(monkeypatch, from_then_on, AWAY)
    with pytest.raises(EngineUnavailable):
        kb.rebuild.verify(sample=3)
    assert states(kb) == ["active", "built"]


def _break(
    monkeypatch: pytest.MonkeyPatch,
    fails: Callable[[str, SearchRequest], bool],
    error: EngineError = DAMAGED,
) -> None:
    """Let searches fail, by the name of the collection and the request."""
    search = MilvusIndex.search

    def searched(index: MilvusIndex, request: SearchRequest) -> tuple[SearchHit, ...]:
        if fails(index.collection, request):
            raise error
        return search(index, request)

    monkeypatch.setattr(MilvusIndex, "search", searched)


# -- documents that change meanwhile ---------------------------------------------------------------


@pytest.mark.parametrize("step", ["compare", "search"])
def test_another_title_meanwhile_is_no_damage(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The texts of the chunks are the same, what they are searched by is not."""
    monkeypatch.setattr("knowport.pipelines.audit._TELL_EVERY", 24)
    kb.rebuild.start()
    left = [0, 1, 2]

    def put(now: RebuildProgress) -> None:
        while now.step == step and left:
            kb.put(doc_id(left[-1]), text_of(left.pop()), title="Quite another title for this one")

    verified = kb.rebuild.verify(sample=24, on_progress=put)
    assert (verified.failures, verified.report["changed_meanwhile"]) == ((), 3)
    assert 12 <= verified.report["searched_for"] < 24
    kb.rebuild.activate()
    assert_clean(kb)


def test_what_changes_after_it_was_searched_for_is_left_to_the_switch(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb.rebuild.start()
    new = kb._parts.generations.index_of(kb.rebuild.status().generations[1].generation)
    new.delete_by_doc_id(doc_id(0))
    new.delete_by_doc_id(doc_id(1))

    def put(now: RebuildProgress) -> None:
        if now.step == "search":
            kb.put(doc_id(0), text_of(0, "second"))

    verified = kb.rebuild.verify(sample=24, on_progress=put)
    assert {found["doc_id"] for found in verified.report["first_findings"]} == {doc_id(1)}
    assert verified.report["changed_meanwhile"] == 1


def test_labelled_questions_on_what_was_ingested_after_the_build(kb: KnowledgeBase) -> None:
    kb.rebuild.start()
    for number in range(20, 24):
        kb.put(doc_id(number), text_of(number))
    verified = kb.rebuild.verify(judge=_judge(kb, [0, 1, 2, 20, 21, 22, 23]), sample=3)
    compared = verified.report["judge"]["comparison"]
    assert (verified.failures, verified.report["changed_meanwhile"]) == ((), 0)
    assert (compared["queries"], compared["delta"]) == (7, 0.0)


def test_labelled_questions_on_what_changes_while_they_are_asked(kb: KnowledgeBase) -> None:
    kb.rebuild.start()
    left = [3, 4, 5]

    def put(now: RebuildProgress) -> None:
        while now.step == "judge" and left:
            kb.put(doc_id(left[-1]), text_of(left.pop(), "second"))

    asked = _labelled(range(3)) + _labelled(range(3, 6), "second")
    verified = kb.rebuild.verify(judge=judge_of(kb, asked, put), sample=3)
    judged = verified.report["judge"]
    assert verified.failures == ()
    assert (judged["comparison"]["queries"], judged["left_out"]) == (3, 3)


# -- damage that was found before ------------------------------------------------------------------


def test_what_was_damaged_is_mended_by_the_next_verification(kb: KnowledgeBase) -> None:
    _damage(kb)
    assert not kb.rebuild.verify(sample=3).passed
    again = kb.rebuild.verify(sample=3)
    assert (again.passed, again.report["documents"]) == (True, 6)
    assert again.report["changed_meanwhile"] == 0


def test_a_report_does_not_outlive_the_damage_it_tells_of(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    _damage(kb)
    kb.rebuild.verify(sample=3)
    stored = kb.rebuild.status().generations[1].generation
    assert not stored.report["passed"]
    with monkeypatch.context() as patch:
        _break(patch, lambda index, _: "_g2_" in index, AWAY)
        with pytest.raises(EngineUnavailable):
            kb.rebuild.verify(sample=3)
    stored = kb.rebuild.status().generations[1].generation
    assert (stored.state, dict(stored.report)) == ("built", {})


def test_hashes_are_not_held_once_they_are_compared(kb: KnowledgeBase) -> None:
    held: list[int] = []

    def count(now: RebuildProgress) -> None:
        if now.step == "search":
            held.append(sum(isinstance(found, ExpectedDocument) for found in gc.get_objects()))

    kb.rebuild.start()
    kb.rebuild.verify(sample=3, on_progress=count)
    assert held
    assert max(held) <= 1


def _damage(kb: KnowledgeBase) -> None:
    """A new generation that has lost a document."""
    kb.rebuild.start()
    new = kb._parts.generations.index_of(kb.rebuild.status().generations[1].generation)
    new.delete_by_doc_id(doc_id(1))


def _mode(mode: str) -> dict[str, Any]:
    return {"retrieval": {"search": {"mode": mode}}}


def _labelled(numbers: Iterable[int], version: str = "first") -> list[LabelledQuery]:
    return [LabelledQuery(f"q{n}", mark(version, n, 0, 0), (doc_id(n),)) for n in numbers]


def _judge(kb: KnowledgeBase, numbers: Iterable[int]) -> Judge | None:
    return judge_of(kb, _labelled(numbers), lambda _: None)


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


# -- what stands until it is shown to be better ----------------------------------------------------


def refusing(_active: Lookup, _new: Lookup) -> Verdict:
    return Verdict(("nDCG@10 falls",), {"queries": 9})


def passing(_active: Lookup, _new: Lookup) -> Verdict:
    return Verdict((), {"queries": 9})


def test_what_labelled_queries_refused_is_not_forgotten_without_them(kb: KnowledgeBase) -> None:
    """Neither by `run` nor by `verify`, which the refusal names, nor by writes meanwhile."""
    refused(lambda: kb.rebuild.run(judge=refusing, sample=3), "nDCG@10 falls")
    refused(lambda: kb.rebuild.run(sample=3), "nDCG@10 falls", "--queries")
    kb.put("kb/more.md", text_of(80))
    refused(lambda: kb.rebuild.run(sample=3), "nDCG@10 falls", "--queries")
    assert not kb.rebuild.verify(sample=3).passed
    refused(kb.rebuild.activate, "nDCG@10 falls")
    assert kb.status().generation == "g1"

    run = kb.rebuild.run(judge=passing, sample=3)

    assert run.switch is not None
    assert not run.switch.forced


def test_what_labelled_queries_refused_can_be_insisted_on(kb: KnowledgeBase) -> None:
    refused(lambda: kb.rebuild.run(judge=refusing, sample=3), "nDCG@10 falls")
    run = kb.rebuild.run(sample=3, force=True)
    assert run.switch is not None
    assert run.switch.forced


class Away(HashEmbedder):
    """Answers no query; of documents all vectors are in the cache."""

    def embed_query(self, text: str) -> Vector:
        raise EmbeddingUnavailable("Connection refused.")


def test_an_embedder_that_is_away_is_not_switched_to(base: Base) -> None:
    base.filled().close()
    with base.open(Away()) as kb:
        refused(lambda: kb.rebuild.run(sample=3), "does not embed a query: Connection refused")
    with base.open() as kb:
        assert kb.rebuild.run(sample=3).switch is not None


def test_it_is_proved_against_the_generation_that_it_replaces(kb: KnowledgeBase) -> None:
    """After a rollback, say, it is verified anew before it is switched to."""
    before = kb.rebuild.run(sample=3).build.generation
    name = kb.rebuild.start().generation
    assert kb.rebuild.verify(sample=3).passed
    kb.rebuild.rollback()
    refused(kb.rebuild.activate, f"{name} was verified against {before}", "g1 is active now")
    assert kb.rebuild.activate(force=True).forced
