"""What an audit shows while it runs, and what it says of itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any, TypeAlias

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from knowport.core.wording import counted
from knowport.entrypoints.options import err, out
from knowport.pipelines.audit import AuditProgress, AuditReport, OnProgress
from knowport.pipelines.audit_active import RepairReport

Values: TypeAlias = Mapping[str, Any]

_SHOWN = 100  # findings that are printed; --json has all
_LINE_SECONDS = 5.0  # between lines of progress where there is no terminal


@contextmanager
def audit_progress(*, quiet: bool) -> Iterator[OnProgress]:
    """A bar on a terminal; elsewhere a line now and then; nothing with --json."""
    if quiet:
        yield lambda _: None
        return
    if not err.is_terminal:
        yield _lines()
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
    with bar:
        task = bar.add_task("compare", total=None)

        def show(now: AuditProgress) -> None:
            bar.update(
                task, description=now.step, completed=now.done, total=max(now.total, now.done, 1)
            )

        yield show


def _lines() -> OnProgress:
    said = time.monotonic()

    def show(now: AuditProgress) -> None:
        nonlocal said
        if time.monotonic() - said > _LINE_SECONDS:
            said = time.monotonic()
            err.print(f"{now.step}: {now.done} of {now.total}", markup=False)

    return show


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
