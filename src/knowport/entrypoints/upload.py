"""``knowport ingest --server``: files are sent to a running service."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from knowport.bootstrap import Composition
from knowport.client import Client, NotFound, RequestRefused
from knowport.core.domains import parse_catalogue
from knowport.errors import InvalidInput
from knowport.model import FileOutcome, FileResult, IngestReport
from knowport.pipelines.opening import SKIPPED


def upload(
    service: Client,
    root: Path,
    *,
    source: str | None,
    category: str | None,
    category_from_folder: bool,
    kb_scope: str | None,
    include: Sequence[str],
    exclude: Sequence[str],
    should_stop: Callable[[], bool],
) -> IngestReport:
    """Send a file or the files below a folder to a service, one after the other.

    What the service refuses of a file is in its result; raises ServiceError for what concerns all
    of them, InvalidInput for the path or a pattern, and ConfigurationError, before anything is
    sent, for the folder's domain catalogue. That is sent last, once all files are. The service does
    not tell how many chunks it had to embed, so the report counts those that were written.
    """
    started = time.monotonic()
    folder = root if root.is_dir() else root.parent
    name = source if source is not None else folder.resolve().name or "documents"
    domains = Composition.read_catalogue(root)
    if domains is not None:
        parse_catalogue(domains, where=str(root / "domains.toml"))
    results: list[FileResult] = []
    stopped = False
    for found in Composition.find_files(root, include, exclude):
        if should_stop():
            stopped = True
            break
        if isinstance(found, FileResult):
            results.append(found)
            continue
        path = found.relative_to(folder)
        first = path.parts[0] if category_from_folder and len(path.parts) > 1 else None
        results.append(
            _sent(
                service,
                found,
                doc_id=f"{name}/{path.as_posix()}",
                source=name,
                category=category if category is not None else first,
                kb_scope=kb_scope,
            )
        )
    if root.is_dir() and not stopped:
        service.set_domains(domains, source=name, kb_scope=kb_scope)
    written = sum(r.chunks for r in results if r.outcome is FileOutcome.INDEXED)
    return IngestReport(results, written, written, time.monotonic() - started, interrupted=stopped)


def _sent(
    service: Client,
    file: Path,
    *,
    doc_id: str,
    source: str,
    category: str | None,
    kb_scope: str | None,
) -> FileResult:
    try:
        data = file.read_bytes()
    except OSError as error:
        detail = f"The file cannot be read: {error.strerror}."
        return FileResult(str(file), FileOutcome.FAILED, reason="unreadable", detail=detail)
    try:
        stored = service.put_file(
            data,
            name=file.name,
            doc_id=doc_id,
            source=source,
            category=category,
            kb_scope=kb_scope,
        )
    except RequestRefused as error:
        reason = _reason(error)
        skipped = reason in SKIPPED and not _is_known(service, doc_id, kb_scope)
        outcome = FileOutcome.SKIPPED if skipped else FileOutcome.FAILED
        return FileResult(str(file), outcome, doc_id, reason=reason, detail=str(error))
    return FileResult(str(file), stored.outcome, stored.id, stored.chunks, stored.reason)


def _reason(error: RequestRefused) -> str:
    """What an ingest on the service's machine would call it."""
    faults = error.problem.get("errors") or [{}]
    match error.code:
        case "load":
            return faults[0].get("message") or error.code
        case "invalid_input":
            return f"invalid_{faults[0].get('field') or 'input'}"
        case _:
            return error.code


def _is_known(service: Client, doc_id: str, kb_scope: str | None) -> bool:
    """Whether the service has a version of the document: then it stays, and the file is at fault
    for being none any more."""
    try:
        service.document(doc_id, kb_scope=kb_scope)
    except NotFound:
        return False
    return True


def refuse_local_options(**given: bool) -> None:
    """Raises InvalidInput for an option that needs the folder on the service's machine."""
    for name, set_ in given.items():
        if set_:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(
                f"{option} cannot be used with --server.",
                field=name,
                remedy="Run the command without it again and again, for instance from cron: what "
                "has not changed is left alone."
                if name == "watch"
                else "Run it on the service's machine, as a job: POST /v1/ingest.",
            )
