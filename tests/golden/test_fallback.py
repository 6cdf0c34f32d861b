"""A guessed filter costs no answer, and relevance tells the answerable from the unanswerable.

Over the example knowledge base with its labelled questions and the bundled model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from test_ops_kb import QUESTIONS, SOURCE, Question, opened, recall_at_5, recall_of_evidence

from knowport import KnowledgeBase, LookupResult
from knowport.model import AttemptName, RelevanceLevel
from knowport.pipelines.lookup import lookup
from support import OPS_KB

MISLEADING = [question for question in QUESTIONS if question.group == "misleading_domain"]
ANSWERABLE = [question for question in QUESTIONS if question.documents]
UNANSWERABLE = [question for question in QUESTIONS if not question.documents]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder: Path = tmp_path_factory.mktemp("fallback") / "home"
    with opened(folder) as opened_kb:
        opened_kb.ingest(OPS_KB, source=SOURCE, category_from_folder=True)
        assert opened_kb.check_domains() == (), "the catalogue fits the categories"
        yield opened_kb


def asked(kb: KnowledgeBase, questions: Sequence[Question]) -> Mapping[str, LookupResult]:
    return {question.name: kb.run_lookup(question.text) for question in questions}


@pytest.fixture(scope="module")
def results(kb: KnowledgeBase) -> Mapping[str, LookupResult]:
    return asked(kb, QUESTIONS)


@pytest.fixture(scope="module")
def unguided(kb: KnowledgeBase, results: Mapping[str, LookupResult]) -> Mapping[str, LookupResult]:
    """The same questions without a catalogue, so without any filter."""
    del results  # they need the catalogue that goes now
    kb.set_domains(None, source=SOURCE)
    without = asked(kb, QUESTIONS)
    assert not any(result.plan.domains for result in without.values())
    kb.set_domains((OPS_KB / "domains.toml").read_text("utf-8"), source=SOURCE)
    return without


def category(document: str) -> str:
    return document.removeprefix(f"{SOURCE}/").partition("/")[0]


def is_misled(question: Question, result: LookupResult) -> bool:
    """Whether the guessed category holds none of the gold documents."""
    guess = result.plan.soft_category
    return guess is not None and guess not in {category(name) for name in question.documents}


def test_the_misleading_questions_mislead(results: Mapping[str, LookupResult]) -> None:
    misled = [q.name for q in MISLEADING if is_misled(q, results[q.name])]

    assert len(misled) >= 0.6 * len(MISLEADING)


def test_wherever_the_guess_was_wrong_the_answer_is_the_unfiltered_one(
    results: Mapping[str, LookupResult],
) -> None:
    """On the misleading questions, and on all others whose words name a wrong domain."""
    wrong = [q for q in ANSWERABLE if is_misled(q, results[q.name])]
    kept = {
        q.name: results[q.name].attempts[0].category
        for q in wrong
        if results[q.name].selected_attempt is not AttemptName.UNFILTERED
    }

    assert len(wrong) >= 15
    assert kept == {}
    for question in wrong:
        attempts = results[question.name].attempts
        assert [attempt.name for attempt in attempts] == ["filtered", "unfiltered"]
        assert attempts[0].low_quality


@pytest.mark.parametrize("measure", [recall_at_5, recall_of_evidence])
def test_the_fallback_finds_what_a_search_without_a_filter_finds(
    results: Mapping[str, LookupResult], unguided: Mapping[str, LookupResult], measure
) -> None:
    worse = {
        question.name: (guided, plain)
        for question in MISLEADING
        for guided in [measure(question, results[question.name])]
        for plain in [measure(question, unguided[question.name])]
        if guided < plain
    }

    assert worse == {}


def test_in_parallel_a_wrong_guess_costs_no_evidence(
    kb: KnowledgeBase, results: Mapping[str, LookupResult]
) -> None:
    """Merged on equal terms, the pages of the wrong domain took half of each answer."""
    options = replace(kb._parts.lookup_options(), parallel=True)
    ports = kb._parts.lookup_ports(kb._parts.serving)
    for question in MISLEADING:
        found = lookup(question.text, ports, options, kb_scope=results[question.name].plan.kb_scope)

        assert found.selected_attempt is AttemptName.UNFILTERED, question.name
        sequential = [item.block.candidate.key for item in results[question.name].evidence]
        assert [item.block.candidate.key for item in found.evidence][
            : len(sequential)
        ] == sequential


def test_on_all_questions_the_catalogue_costs_no_recall(
    results: Mapping[str, LookupResult],
    unguided: Mapping[str, LookupResult],
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines, means = [], {}
    for group in ("term", "semantic", "multi_chunk", "misleading_domain"):
        of_group = [question for question in ANSWERABLE if question.group == group]
        for name, every in (("with", results), ("without", unguided)):
            values = [recall_at_5(question, every[question.name]) for question in of_group]
            means[group, name] = sum(values) / len(values)
        guessed = sum(results[q.name].plan.soft_category is not None for q in of_group)
        filtered = sum(results[q.name].selected_attempt == "filtered" for q in of_group)
        lines.append(
            f"  {group:<18} n {len(of_group):>3}  guessed {guessed:>3}  kept {filtered:>3}  "
            f"recall@5 with {means[group, 'with']:.3f}  without {means[group, 'without']:.3f}"
        )
    with capsys.disabled():
        print("\nops-kb, domain catalogue:", *lines, sep="\n")  # noqa: T201
    assert any(result.selected_attempt == "filtered" for result in results.values())
    for group in {group for group, _ in means}:
        assert means[group, "with"] >= means[group, "without"] - 0.02, group


# -- relevance ------------------------------------------------------------------------------------


def best_score(result: LookupResult) -> float:
    """The best relevance score of the evidence, or of all candidates where there is none."""
    shown = [item.block.candidate for item in result.evidence] or list(result.candidates)
    return max(c.assessment.score for c in shown if c.assessment.score is not None)


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Chance that a positive scores above a negative; half for a tie."""
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    return wins / (len(positive) * len(negative))


def test_relevance_tells_the_answerable_from_the_unanswerable(
    results: Mapping[str, LookupResult], capsys: pytest.CaptureFixture[str]
) -> None:
    answered = [q for q in ANSWERABLE if recall_of_evidence(q, results[q.name]) > 0]
    positive = [best_score(results[question.name]) for question in answered]
    negative = [best_score(results[question.name]) for question in UNANSWERABLE]
    area = auroc(positive, negative)
    lines = [
        f"  AUROC of the best score: {area:.3f} "
        f"({len(positive)} answered of {len(ANSWERABLE)}, {len(negative)} unanswerable)"
    ]
    for name, refused in (
        ("none", {RelevanceLevel.NONE}),
        ("none or low", {RelevanceLevel.NONE, RelevanceLevel.LOW}),
    ):
        right = sum(results[q.name].level in refused for q in UNANSWERABLE)
        wrong = sum(results[q.name].level in refused for q in answered)
        precision = right / (right + wrong) if right + wrong else float("nan")
        lines.append(
            f"  refused at {name:<12} precision {precision:.3f}, "
            f"recall {right / len(UNANSWERABLE):.3f} "
            f"({right} unanswerable and {wrong} answered refused)"
        )
    with capsys.disabled():
        print("\nops-kb, relevance:", *lines, sep="\n")  # noqa: T201
    assert area >= 0.75


@pytest.mark.parametrize(
    ("positive", "negative", "area"),
    [([2.0, 3.0], [1.0], 1.0), ([1.0], [2.0, 3.0], 0.0), ([1.0, 3.0], [2.0], 0.5), ([1], [1], 0.5)],
)
def test_the_measure_itself(positive, negative, area) -> None:
    assert auroc(positive, negative) == area
