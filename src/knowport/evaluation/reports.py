"""One report as a value, and the same as JSON and Markdown. Pure; ``html`` makes the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from knowport.evaluation import measures, summary
from knowport.evaluation.datasets import Dataset
from knowport.evaluation.html import to_html
from knowport.evaluation.runs import SetRun
from knowport.evaluation.summary import Values
from knowport.evaluation.tables import facts, tables, warnings

FORMAT = 1


def build_report(
    dataset: Dataset,
    runs: Sequence[SetRun],
    values: Sequence[Sequence[Values]],
    *,
    by: str | None,
    seed: int,
    versions: Mapping[str, str],
    created_at: str,
) -> dict[str, Any]:
    """The report of one setup, or of two compared (the second against the first).

    ``values`` are one to one with ``runs`` and their queries. Everything but ``created_at`` and
    the times is the same for the same index, settings and seed, to the last digit.
    """
    groups = summary.by_group(dataset.queries, by)
    report: dict[str, Any] = {
        "format": FORMAT,
        "created_at": created_at,
        "seed": seed,
        "group_by": by,
        "versions": dict(versions),
        "set": _set(dataset, runs[0]),
        "setups": [
            _setup(dataset, run, found, groups, seed)
            for run, found in zip(runs, values, strict=True)
        ],
    }
    if len(runs) == 2:
        report["comparison"] = {
            "a": runs[0].setup.name,
            "b": runs[1].setup.name,
            "groups": summary.comparison(values[0], values[1], groups, seed=seed),
            "changes": summary.changes(dataset.queries, values[0], values[1], measures.RANKING[0]),
            "changes_of": measures.RANKING[0],
        }
    return report


def _set(dataset: Dataset, run: SetRun) -> dict[str, Any]:
    indexed = set(run.prepared.corpus_ids.values())
    asked = [query.query_id for query in dataset.queries]
    gold = {query_id: dataset.gold.get(query_id, {}) for query_id in asked}
    missing = {
        query_id: sorted(doc for doc in documents if doc not in indexed)
        for query_id, documents in gold.items()
    }
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "queries": len(asked),
        "unanswerable": sum(not documents for documents in gold.values()),
        "documents": len(indexed),
        "chunks": run.prepared.chunks,
        "gold_not_in_index": {query_id: ids for query_id, ids in missing.items() if ids},
        "labels_of_unknown_queries": list(dataset.unknown_queries),
        "not_indexed": dict(sorted(run.prepared.not_indexed.items())),
    }


def _setup(
    dataset: Dataset,
    run: SetRun,
    values: Sequence[Values],
    groups: Mapping[str, Sequence[int]],
    seed: int,
) -> dict[str, Any]:
    status = run.status
    return {
        "name": run.setup.name,
        "note": run.setup.note,
        "settings": run.setup.settings.model_dump(mode="json"),
        "mode": run.setup.mode or run.setup.settings.retrieval.search.mode,
        "engine": status.engine,
        "embedder": asdict(status.embedder),
        "corpus_fingerprint": run.prepared.fingerprint,
        "calibrated": run.calibrated,
        "figures": {
            group: summary.figures(dataset, run.queries, values, positions, seed=seed)
            for group, positions in groups.items()
        },
        "behaviour": {
            group: summary.behaviour(dataset, run.queries, positions)
            for group, positions in groups.items()
        },
        "latency_ms": summary.latency(run.queries),
        "risk_coverage": summary.risk_coverage(dataset, run.queries),
        "errors": {query.query_id: query.error for query in run.queries if query.error},
        "queries": [
            {
                "query_id": query.query_id,
                "text": query.text,
                **{name: asked.fields.get(name) for name in ("group",)},
                "values": found,
                "documents": list(recorded.documents[:10]),
                "evidence": list(recorded.evidence),
                "found": recorded.found,
                "level": recorded.level,
                "score": recorded.score,
                "attempts": list(recorded.attempts),
                "notices": list(recorded.notices),
            }
            for query, asked, recorded, found in zip(
                dataset.queries, dataset.queries, run.queries, values, strict=True
            )
        ],
    }


def to_json(report: Mapping[str, Any]) -> str:
    """JSON without NaN."""
    return json.dumps(report, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def to_markdown(report: Mapping[str, Any]) -> str:
    """The report as Markdown, with its settings."""
    parts = [f"# Evaluation of {report['set']['name']}", ""]
    parts += [f"- {name}: {_escaped(value)}" for name, value in facts(report)]
    parts += ["", *(f"**Warning.** {_escaped(text)}\n" for text in warnings(report))]
    for title, head, rows in tables(report):
        parts += [f"## {title}", "", _line(head), _line(["---"] * len(head))]
        parts += [_line(row) for row in rows]
        parts.append("")
    for setup in report["setups"]:
        settings = json.dumps(setup["settings"], ensure_ascii=False, indent=2)
        parts += [f"## {setup['name']}: settings", "", "```json", settings, "```", ""]
    return "\n".join(parts)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(text) for text in cells) + " |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def files(report: Mapping[str, Any]) -> dict[str, str]:
    """File name to text of everything that is written."""
    return {
        "report.json": to_json(report),
        "report.md": to_markdown(report),
        "report.html": to_html(report),
    }
