"""A set, some setups, one report: what the command line, the gates and the benchmarks call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from knowport.evaluation import reports, summary
from knowport.evaluation.datasets import Dataset
from knowport.evaluation.runs import Setup, run_set
from knowport.evaluation.setups import versions
from knowport.model import IngestProgress
from knowport.ports import Embedder


class Progress(Protocol):
    """Hears how far a setup has come."""

    def ingest(self, now: IngestProgress) -> None: ...

    def queries(self, done: int, total: int) -> None: ...


class Silent:
    """Hears and says nothing."""

    def ingest(self, now: IngestProgress) -> None: ...

    def queries(self, done: int, total: int) -> None: ...


def evaluate(
    dataset: Dataset,
    chosen: Sequence[Setup],
    work: Path,
    *,
    by: str | None = None,
    seed: int,
    more: Sequence[str] = (),
    embedder: Embedder | None = None,
    progress: Callable[[str], Progress] = lambda _: Silent(),
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run one setup, or several by turns, and build the report; of two the second is compared
    with the first.

    ``by`` is the field to group queries by, ``more`` are further measures by ir-measures name,
    ``work`` is the folder of scratch indexes. Raises Stopped, and what KnowledgeBase raises.
    """
    runs = []
    for setup in _distinct(chosen):
        hears = progress(setup.name)
        runs.append(
            run_set(
                dataset,
                setup,
                work,
                embedder=embedder,
                on_ingest=hears.ingest,
                on_query=hears.queries,
                should_stop=should_stop,
            )
        )
    return reports.build_report(
        dataset,
        runs,
        [summary.query_values(dataset, run.queries, more) for run in runs],
        by=by,
        seed=seed,
        versions=versions(),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _distinct(chosen: Sequence[Setup]) -> list[Setup]:
    """The setups under distinct names."""
    names = [setup.name for setup in chosen]
    return [
        replace(setup, name=f"{setup.name} {at}") if names.count(setup.name) > 1 else setup
        for at, setup in enumerate(chosen, start=1)
    ]
