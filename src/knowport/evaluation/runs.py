"""Runs every query of a set through the pipeline that serves agents, and records what came."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowport.core.selection import select
from knowport.errors import EmbeddingError, InvalidInput
from knowport.evaluation.datasets import Dataset, Query
from knowport.evaluation.measures import ChunkSpan, overlaps
from knowport.evaluation.records import QueryRun
from knowport.evaluation.scratch import AnswerSpans, Prepared, open_scratch, prepare
from knowport.knowledge_base import KnowledgeBase
from knowport.model import Candidate, IngestProgress, LookupResult, SearchMode, Status
from knowport.ports import Embedder
from knowport.settings import Settings

_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Setup:
    """Named settings to measure. ``mode`` overrides the settings' mode; ``sparse`` is BM25 alone,
    which is for measuring and no setting of the product."""

    name: str
    settings: Settings
    mode: SearchMode | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class SetRun:
    """One setup over a whole set."""

    setup: Setup
    prepared: Prepared
    status: Status
    calibrated: bool
    queries: tuple[QueryRun, ...]


class Stopped(Exception):
    """The caller asked to stop; what was ingested until then stays for the next run."""


def run_set(
    dataset: Dataset,
    setup: Setup,
    work: Path,
    *,
    embedder: Embedder | None = None,
    on_ingest: Callable[[IngestProgress], None] = lambda _: None,
    on_query: Callable[[int, int], None] = lambda _done, _total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> SetRun:
    """Ingest a set into its scratch knowledge base and look every query up, in file order.

    A query that the embedder or the input checks refuse is recorded with its error and scores 0;
    a failing engine ends the run. Raises Stopped, and what KnowledgeBase raises.
    """
    with open_scratch(dataset, setup.settings, work, embedder) as kb:
        prepared = prepare(kb, dataset, on_progress=on_ingest, should_stop=should_stop)
        if prepared is None:
            raise Stopped
        recorder = _Recorder(kb, dataset, prepared, setup.mode)
        for query in dataset.queries[:_WARM_UP]:  # the first lookups load models and caches
            recorder.record(query)
        runs = []
        for done, query in enumerate(dataset.queries):
            if should_stop():
                raise Stopped
            on_query(done, len(dataset.queries))
            runs.append(recorder.record(query))
        on_query(len(runs), len(runs))
        return SetRun(setup, prepared, kb.status(), recorder.calibrated, tuple(runs))


class _Recorder:
    def __init__(
        self, kb: KnowledgeBase, dataset: Dataset, prepared: Prepared, mode: SearchMode | None
    ) -> None:
        self._kb, self._mode = kb, mode
        self._names = prepared.corpus_ids
        self._spans = AnswerSpans(kb, dataset, prepared)
        self.calibrated = False

    def record(self, query: Query) -> QueryRun:
        answers = tuple(self._spans.answers(query.query_id))
        chunks = [c for name in {a.doc_id for a in answers} for c in self._spans.chunks(name)]
        holding = sum(any(overlaps(chunk, answer) for answer in answers) for chunk in chunks)
        start = time.perf_counter()
        try:
            result = self._kb.run_lookup(query.text, mode=self._mode)
        except (EmbeddingError, InvalidInput) as error:
            return QueryRun(
                query.query_id, answers=answers, chunks_with_answer=holding, error=error.message
            )
        total = time.perf_counter() - start
        self.calibrated = result.calibrated
        return self._recorded(query, result, total, answers, holding)

    def _recorded(
        self,
        query: Query,
        result: LookupResult,
        total: float,
        answers: tuple[ChunkSpan, ...],
        holding: int,
    ) -> QueryRun:
        ordered = sorted(result.candidates, key=lambda found: (found.rank, found.key))
        returned = [item.block.candidate for item in result.evidence]
        unfiltered = without_thresholds(self._kb, result)
        scores = [c.assessment.score for c in ordered if c.assessment.score is not None]
        return QueryRun(
            query_id=query.query_id,
            documents=self._documents(ordered),
            returned=tuple(self._span(candidate) for candidate in returned),
            evidence=tuple(candidate.key for candidate in returned),
            unfiltered_documents=self._documents(unfiltered),
            answers=answers,
            chunks_with_answer=holding,
            found=result.found,
            level=str(result.level),
            score=max(scores, default=None),
            attempts=tuple(str(attempt.name) for attempt in result.attempts),
            selected_attempt=str(result.selected_attempt),
            guessed_category=result.plan.soft_category or "",
            notices=tuple(notice.code for notice in result.notices),
            milliseconds={
                **{timing.step: timing.seconds * 1000 for timing in result.timings},
                "total": total * 1000,
            },
        )

    def _documents(self, candidates: Sequence[Candidate]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._names[found.hit.doc_id] for found in candidates))

    def _span(self, candidate: Candidate) -> ChunkSpan:
        assert candidate.hit.chunk_index is not None  # all rows are ours
        return self._spans.chunk(self._names[candidate.hit.doc_id], candidate.hit.chunk_index)


def without_thresholds(kb: KnowledgeBase, result: LookupResult) -> tuple[Candidate, ...]:
    """The evidence blocks of a lookup as they would be if no chunk were below a threshold."""
    rag = kb.settings.rag
    return select(
        result.candidates,
        max_per_document=rag.max_chunks_per_document,
        return_n=rag.return_n,
    ).kept
