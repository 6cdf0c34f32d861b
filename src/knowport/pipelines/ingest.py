"""An index is brought in line with the files of a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from pathlib import Path

from knowport.core.wording import counted
from knowport.errors import EngineError, GenerationChanged
from knowport.model import DocumentInfo, FileOutcome, FileResult, IngestProgress, IngestReport
from knowport.pipelines.flow import Room
from knowport.pipelines.ingest_options import IngestOptions
from knowport.pipelines.ingest_ports import IngestPorts, ReadPorts
from knowport.pipelines.ingest_run import IngestRun
from knowport.pipelines.mend import MendPorts
from knowport.pipelines.missing import Missing, delete, missing, of_source, would_delete
from knowport.pipelines.opening import Opened, Reader
from knowport.pipelines.put import MAX_SWITCHES, PortsNow, through_switches
from knowport.pipelines.recovery import finish
from knowport.pipelines.replace import as_writer
from knowport.pipelines.retry import with_retries


def ingest(
    root: Path,
    ports: PortsNow,
    options: IngestOptions,
    *,
    on_progress: Callable[[IngestProgress], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> IngestReport:
    """Bring the index in line with the files below ``root``.

    ``ports`` gives the present ones, and is asked again when the generation is switched meanwhile.
    A file that cannot be used is reported and the others go on. ``should_stop`` is asked between
    files and between embedding batches; what has all its vectors by then is still written. Raises
    InvalidInput for the root or the options, and EngineError, EmbeddingError or LedgerError where
    going on makes no sense; what was finished until then stays.
    """
    options, now = options.checked(), ports()
    started = time.monotonic()
    before = of_source(now.ledger, options)
    files = list(now.find(root, options.include, options.exclude))
    run = IngestRun(root, files, options, on_progress, should_stop)
    for switches in count():
        try:
            run.go(now)
            break
        except GenerationChanged:  # the files that have no result yet begin again
            if switches == MAX_SWITCHES:
                raise
            now = ports()
    results, gone = run.results, Missing()
    if len(results) == len(files):
        gone = _missing(now, before, run.seen, root, files, options)
        for result in delete(gone, root, options, ports):
            results.append(result)
            if should_stop():
                break
    through_switches(lambda now: _settle(now, options.kb_scope), ports)
    left = _left(gone, results)
    refused = bool(gone.refusal) or not options.delete_missing
    return IngestReport(
        files=results,
        chunks_written=run.written,
        chunks_embedded=run.embedded,
        seconds=time.monotonic() - started,
        interrupted=len(results) < len(files) or (bool(left) and not refused),
        vanished=left,
    )


def preview(
    root: Path,
    ports: ReadPorts,
    options: IngestOptions,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> IngestReport:
    """What ``ingest`` would do, file by file; nothing is embedded or written. Raises as it does."""
    options, started = options.checked(), time.monotonic()
    before = of_source(ports.ledger, options)
    files = list(ports.find(root, options.include, options.exclude))
    room = Room(1)
    reader = Reader(ports, options, root.parent if files == [root] else root, {}, room)
    results = []
    for item in reader.open(files):
        if isinstance(item, Opened):
            results.append(item.indexed())
            room.give_back(item.size)
        else:
            results.append(item.result)
        if should_stop():
            break
    gone, interrupted = Missing(), len(results) < len(files)
    if not interrupted:
        gone = _missing(ports, before, reader.seen, root, files, options)
        results.extend(would_delete(gone, root, options))
    return IngestReport(
        files=results,
        chunks_written=0,
        chunks_embedded=0,
        seconds=time.monotonic() - started,
        interrupted=interrupted,
        vanished=_left(gone, results),
    )


def _missing(
    ports: ReadPorts,
    before: Mapping[str, DocumentInfo],
    seen: Collection[str],
    root: Path,
    files: Sequence[Path | FileResult],
    options: IngestOptions,
) -> Missing:
    selects = ports.selector(options.include, options.exclude)
    return missing(before, seen, root, files, options, selects)


def _left(gone: Missing, results: Sequence[FileResult]) -> tuple[str, ...]:
    """The documents without a file that stay in the index."""
    deleted = {result.doc_id for result in results if result.outcome is FileOutcome.DELETED}
    return tuple(
        info.doc_id
        for info in gone.documents
        if info.state != "deleting" and info.doc_id not in deleted
    )


def _settle(ports: IngestPorts, kb_scope: str) -> None:
    with_retries(lambda: _finish(ports, kb_scope))
    _verify(ports, kb_scope)


def _finish(ports: IngestPorts, kb_scope: str) -> None:
    """Finish what an interruption left in the scope, as the next start would."""
    unfinished = [i.doc_id for i in ports.ledger.unfinished() if i.kb_scope == kb_scope]
    if unfinished:
        finish(
            unfinished,
            MendPorts(ports.embedder, ports.ledger, ports.index, ports.generation, ports.chunking),
        )


def _verify(ports: IngestPorts, kb_scope: str) -> None:
    """Say done only after a read that sees every write finds what the ledger expects.

    Documents that the engine lost chunks of (a full disk does that without an error) go back to
    ``writing``, so that the next ingest writes them again. Of one that is unfinished any number
    may be there.
    """
    ledger, index = ports.ledger, ports.index
    whole, unfinished = _parted(ledger.documents(kb_scope=kb_scope))
    if not unfinished and index.count(kb_scope=kb_scope) == _expected(whole):
        return
    with as_writer(ledger, ports.generation):  # others may have been writing between the two
        whole, unfinished = _parted(ledger.documents(kb_scope=kb_scope))
        of_unfinished = sum(index.count(doc_id=info.doc_id) for info in unfinished)
        stored, expected = index.count(kb_scope=kb_scope) - of_unfinished, _expected(whole)
        if stored == expected:
            return
        lost = [i.doc_id for i in whole if index.count(doc_id=i.doc_id) != i.chunk_count]
        ledger.reopen_writes(lost)
    raise EngineError(
        f"The index holds {counted(stored, 'chunk')} in scope {kb_scope!r}; the ledger expects "
        f"{expected}. Not whole: {counted(len(lost), 'document')}.",
        remedy="Check that the disk has room, then run the same command again: it writes them "
        "anew.",
    )


def _parted(infos: Sequence[DocumentInfo]) -> tuple[list[DocumentInfo], list[DocumentInfo]]:
    """Documents that are in, and those whose writing or deletion was interrupted."""
    whole = [info for info in infos if info.state == "indexed"]
    return whole, [info for info in infos if info.state != "indexed"]


def _expected(infos: Sequence[DocumentInfo]) -> int:
    return sum(info.chunk_count for info in infos)
