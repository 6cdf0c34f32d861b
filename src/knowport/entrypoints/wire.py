"""Values as JSON. The agent's view is made here and nowhere else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from knowport.core.projection import project
from knowport.model import Answer, Document, DocumentInfo, FileOutcome, IngestReport, Status
from knowport.pipelines.explain import Explanation
from knowport.pipelines.trace import trace_of


def answer_json(answer: Answer) -> dict[str, Any]:
    """The agent's view: exactly the fields of ``Answer``."""
    return asdict(answer)


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """A lookup laid open: the agent's view, then all that led to it."""
    result = explanation.result
    trace = trace_of(result, content=True)
    return {
        "answer": answer_json(project(result)),
        "query": result.plan.original,
        "plan": trace["plan"],
        "attempts": trace["attempts"],
        "selected_attempt": trace["selected_attempt"],
        "calibrated": result.calibrated,
        "candidates": list(explanation.candidates),
        "fusion_check": list(explanation.fusion_check),
        "timings_ms": trace["timings_ms"],
        "document": None if explanation.whereabouts is None else asdict(explanation.whereabouts),
    }


def report_json(report: IngestReport) -> dict[str, Any]:
    return {
        "counts": {str(outcome): report.count(outcome) for outcome in FileOutcome},
        "chunks_written": report.chunks_written,
        "chunks_embedded": report.chunks_embedded,
        "seconds": round(report.seconds, 3),
        "interrupted": report.interrupted,
        "vanished": list(report.vanished),
        "files": [asdict(result) for result in report.files],
    }


def document_json(info: DocumentInfo, document: Document | None = None) -> dict[str, Any]:
    values = {**asdict(info), "metadata": dict(info.metadata)}
    return values if document is None else {**values, "text": document.text}


def status_json(status: Status) -> dict[str, Any]:
    return asdict(status)
