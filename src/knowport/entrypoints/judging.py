"""The judge of a rebuild, by labelled questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowport.knowledge_base import KnowledgeBase
from knowport.pipelines.rebuild_ports import Judge, OnProgress, RebuildProgress

if TYPE_CHECKING:
    from knowport.evaluation.labelled import LabelledQuery

SEED = 20_240_601


def judge_of(
    kb: KnowledgeBase, queries: Sequence[LabelledQuery] | None, on_progress: OnProgress
) -> Judge | None:
    """Holds the new generation against the active one by these questions; None without any."""
    if queries is None:
        return None
    # What measures is not loaded by those who do not measure.
    from knowport.evaluation.rebuild_judge import judge_by  # noqa: PLC0415

    return judge_by(
        queries,
        [info.doc_id for info in kb.documents()],
        seed=SEED,
        on_query=lambda done, total: on_progress(RebuildProgress("judge", done, total)),
    )
