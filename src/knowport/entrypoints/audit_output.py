"""What an audit shows while it runs, and what it says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from typing import Any, TypeAlias

from knowport.core.wording import counted
from knowport.entrypoints.options import out
from knowport.entrypoints.progress import step_progress
from knowport.pipelines.audit import AuditProgress, AuditReport, OnProgress
from knowport.pipelines.audit_active import RepairReport

Values: TypeAlias = Mapping[str, Any]

_SHOWN = 100  # findings that are printed; --json has all


def audit_progress(*, quiet: bool) -> AbstractContextManager[OnProgress]:
    """See ``step_progress``."""
    return step_progress(quiet=quiet)


def as_progress(values: Values) -> AuditProgress:
    """The progress that a job tells, of which a later version may tell more."""
    return AuditProgress(**{part.name: values[part.name] for part in fields(AuditProgress)})


# -- results, as the JSON values that a service sends and --json prints -------------------------


def audit_json(report: AuditReport) -> dict[str, Any]:
    return {
        "documents": report.documents,
        "chunks": report.chunks,
        "probed": report.probed,
        "findings": [asdict(finding) for finding in report.findings],
    }


def repair_json(repaired: RepairReport) -> dict[str, Any]:
    return {
        "before": audit_json(repaired.before),
        "rewritten": list(repaired.rewritten),
        "deleted": list(repaired.deleted),
        "refused": dict(repaired.refused),
        "after": audit_json(repaired.after),
    }


def print_audit(report: Values) -> None:
    findings = report["findings"]
    for finding in findings[:_SHOWN]:
        about = finding["key"] or finding["doc_id"]
        out.print(f"{finding['code']}: {about}: {finding['message']}", markup=False)
    if len(findings) > _SHOWN:
        out.print(f"... and {len(findings) - _SHOWN} more (--json has all).", markup=False)
    codes = Counter(finding["code"] for finding in findings)
    kinds = ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))
    out.print(
        f"{counted(report['documents'], 'document')}, {counted(report['chunks'], 'chunk')}, "
        f"{report['probed']} searched for. "
        + (f"{counted(len(findings), 'finding')}: {kinds}." if kinds else "No findings."),
        markup=False,
    )


def print_repair(repaired: Values) -> None:
    print_audit(repaired["before"])
    if not repaired["before"]["findings"]:
        return
    out.print(
        f"Repaired: {counted(len(repaired['rewritten']), 'document')} written again, "
        f"{len(repaired['deleted'])} deleted.",
        markup=False,
    )
    for doc_id, reason in repaired["refused"].items():
        out.print(f"Not repaired: {doc_id}: {reason}", markup=False)
    print_audit(repaired["after"])
