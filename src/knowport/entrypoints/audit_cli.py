"""``knowport audit``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from knowport.entrypoints.options import (
    EXIT_PARTIAL,
    Config,
    Home,
    Json,
    err,
    opened,
    out,
    print_json,
)
from knowport.pipelines.audit import AuditProgress, AuditReport, OnProgress
from knowport.pipelines.audit_active import DEFAULT_SAMPLE, RepairReport

app = typer.Typer()

_SHOWN = 100  # findings that are printed; --json has all
_LINE_SECONDS = 5.0  # between lines of progress where there is no terminal


def _sample(value: str) -> int | None:
    if value == "all":
        return None
    if not (value.isascii() and value.isdecimal()):
        raise typer.BadParameter(f"{value!r} is neither a number nor 'all'.")
    return int(value)


@app.command()
def audit(
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what is wrong from the ledger's texts.")
    ] = False,
    sample: Annotated[
        Any,
        typer.Option(
            parser=_sample,
            metavar="N|all",
            help="How many chunks to search for by their vectors and words.",
        ),
    ] = str(DEFAULT_SAMPLE),
    as_json: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Hold the ledger and the index against each other, both ways.

    Found are missing chunks, rows that no document knows of, wrong hashes, duplicates, wrong
    scopes and categories, and chunks that a search by their own text does not find. Others may
    read and write meanwhile. Exit code 8: something is wrong, with --repair: still wrong.

    Example: knowport audit --repair --sample all
    """
    with opened(home, config) as kb, _progress(quiet=as_json) as on_progress:
        if repair:
            repaired = kb.repair(sample=sample, on_progress=on_progress)
            report = repaired.after
        else:
            repaired = None
            report = kb.audit(sample=sample, on_progress=on_progress)
    if as_json:
        print_json(_json(report) if repaired is None else _repair_json(repaired))
    elif repaired is None:
        _print(report)
    else:
        _print_repair(repaired)
    if report.findings:
        raise typer.Exit(EXIT_PARTIAL)


def _json(report: AuditReport) -> dict[str, Any]:
    return {
        "documents": report.documents,
        "chunks": report.chunks,
        "probed": report.probed,
        "findings": [asdict(finding) for finding in report.findings],
    }


def _repair_json(repaired: RepairReport) -> dict[str, Any]:
    return {
        "before": _json(repaired.before),
        "rewritten": list(repaired.rewritten),
        "deleted": list(repaired.deleted),
        "refused": dict(repaired.refused),
        "after": _json(repaired.after),
    }


def _print(report: AuditReport) -> None:
    for finding in report.findings[:_SHOWN]:
        out.print(
            f"{finding.code}: {finding.key or finding.doc_id}: {finding.message}", markup=False
        )
    if len(report.findings) > _SHOWN:
        out.print(f"... and {len(report.findings) - _SHOWN} more (--json has all).", markup=False)
    codes = Counter(finding.code for finding in report.findings)
    kinds = ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))
    out.print(
        f"{report.documents} documents, {report.chunks} chunks, {report.probed} searched for. "
        + (f"{len(report.findings)} findings: {kinds}." if kinds else "No findings."),
        markup=False,
    )


def _print_repair(repaired: RepairReport) -> None:
    _print(repaired.before)
    if not repaired.before.findings:
        return
    out.print(
        f"Repaired: {len(repaired.rewritten)} documents written again, "
        f"{len(repaired.deleted)} deleted.",
        markup=False,
    )
    for doc_id, reason in repaired.refused.items():
        out.print(f"Not repaired: {doc_id}: {reason}", markup=False)
    _print(repaired.after)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[OnProgress]:
    """A bar on a terminal; elsewhere a line now and then; nothing with --json."""
    if quiet:
        yield lambda _: None
        return
    if not err.is_terminal:
        yield _progress_lines()
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


def _progress_lines() -> OnProgress:
    said = time.monotonic()

    def show(now: AuditProgress) -> None:
        nonlocal said
        if time.monotonic() - said > _LINE_SECONDS:
            said = time.monotonic()
            err.print(f"{now.step}: {now.done} of {now.total}", markup=False)

    return show
