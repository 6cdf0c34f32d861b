"""The three stages of an ingest, side by side.

::

    opening         files -> cut documents, or the reason why not       a thread of its own
    staging         cut documents -> documents with vectors             the thread of the caller
    group writing   documents with vectors -> the index                 a thread of its own

Bounded channels connect them, so that memory stays bounded whatever the folder holds. Files keep
their order through all stages, and so do failures: what came before one is written. Vectors are
made before anything is written, so an embedder that fails leaves every document as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

from knowport.errors import KnowportError
from knowport.model import FileResult, IngestProgress
from knowport.pipelines.flow import Channel, Closed, Room
from knowport.pipelines.group_writing import Group, GroupWriter
from knowport.pipelines.ingest_options import IngestOptions
from knowport.pipelines.ingest_ports import IngestPorts
from knowport.pipelines.opening import Opened, Reader, Settled, file_size
from knowport.pipelines.staging import Staged, Staging

# What is under way at once, in characters of text; a larger file is under way alone.
ROOM = 6_000_000
# Files that wait to be staged, so many of which are worth a look into the cache; groups that wait
# to be written.
OPENED_FILES, TAKEN_FILES, GROUPS = 500, 20, 2
# A group is written when it holds so much (ten rows in a write cost the engine a third of what
# five hundred do), or is so many seconds old: a slow embedder finishes its documents a few at a
# time.
GROUP_CHUNKS, GROUP_FILES, GROUP_SECONDS = 500, 500, 1.0
# Whoever waits for a slow file looks up this often, in seconds.
POLL_SECONDS = 0.2


class IngestRun:
    """Files on their way into the index; ``results`` are of the first of them, in their order.

    ``seen`` has the file of each document id. ``written`` and ``embedded`` count chunks.
    """

    def __init__(
        self,
        root: Path,
        files: Sequence[Path | FileResult],
        options: IngestOptions,
        on_progress: Callable[[IngestProgress], None],
        should_stop: Callable[[], bool],
    ) -> None:
        self._folder = root.parent if list(files) == [root] else root
        self._files, self._options = files, options
        self._on_progress, self._should_stop = on_progress, should_stop
        self._bytes = [
            0,
            *accumulate(file_size(str(f)) if isinstance(f, Path) else 0 for f in files),
        ]
        self.results: list[FileResult] = []
        self.seen: dict[str, str] = {}
        self.written = self.embedded = 0

    def go(self, ports: IngestPorts) -> None:
        """Take all files that have no result yet, or those before ``should_stop`` says so.

        Raises EmbeddingError, EngineError, LedgerError or GenerationChanged when the files before
        have their results; then it may be called again.
        """
        opened: Channel[Opened | Settled] = Channel(OPENED_FILES)
        groups: Channel[Group] = Channel(GROUPS)
        room = Room(ROOM)
        reader = Reader(ports, self._options, self._folder, self.seen, room)
        staging = Staging(ports.embedder, ports.ledger)
        writer = GroupWriter(ports, room, self.results.append)
        start, before = len(self.results), self.written
        grouping = _Grouping(groups)

        def on_step() -> bool:
            """Tell how far it is; returns whether to stop."""
            head = staging.pending[0] if staging.pending else None
            done = start + grouping.files
            share = head.done / head.chunks if head else 0.0
            size = self._bytes[min(done + 1, len(self._files))] - self._bytes[done]
            self._on_progress(
                IngestProgress(
                    bytes_done=self._bytes[done] + int(size * share),
                    bytes_total=self._bytes[-1],
                    files_done=len(self.results),
                    files_total=len(self._files),
                    chunks_done=before + grouping.chunks + (head.done if head else 0),
                    path=head.item.path if head else reader.path,
                )
            )
            return self._should_stop()

        with ThreadPoolExecutor(2, "knowport-ingest") as threads:
            reading = threads.submit(_fill, opened, reader.open(self._files[start:]))
            reading.add_done_callback(lambda _: opened.end())
            writing = threads.submit(writer.run, groups)
            writing.add_done_callback(lambda _: groups.close())
            writing.add_done_callback(lambda _: room.close())
            try:
                if _stage(opened, staging, grouping, on_step):
                    reading.result()
            except Closed:  # the writer has failed; its failure is raised below
                pass
            except KeyboardInterrupt:
                groups.close()
                raise
            finally:
                opened.close()
                room.close()
                groups.end()
                try:
                    writing.result()  # a failure of earlier files than any other
                finally:
                    self.written += writer.written
                    self.embedded += staging.embedded
        on_step()


def _fill(opened: Channel[Opened | Settled], items: Iterator[Opened | Settled]) -> None:
    try:
        for item in items:
            opened.put(item)
            del item  # while the next one is read it may be large and done with
    except Closed:
        return


class _Grouping:
    """Hands files that are ready to the writer, in groups; counts those that it was given."""

    def __init__(self, groups: Channel[Group]) -> None:
        self._groups = groups
        self._group: Group = []
        self._held, self._since = 0, time.monotonic()
        self.files = self.chunks = 0

    def take(self, ready: Iterator[Staged]) -> None:
        """Raises Closed where the writer has failed."""
        for staged in ready:
            if self._held + staged.chunks > GROUP_CHUNKS:
                self.flush()
            self._group.append(staged)
            self._held += staged.chunks
            self.files += 1
            self.chunks += staged.chunks
        old = time.monotonic() - self._since > GROUP_SECONDS
        if old or self._held >= GROUP_CHUNKS or len(self._group) >= GROUP_FILES:
            self.flush()

    def flush(self) -> None:
        if self._group:
            self._groups.put(self._group)
            self._group, self._held = [], 0
        elif self._groups.closed:
            raise Closed
        self._since = time.monotonic()


def _stage(
    opened: Channel[Opened | Settled],
    staging: Staging,
    grouping: _Grouping,
    should_stop: Callable[[], bool],
) -> bool:
    """Embed what was opened and hand it on; returns whether it came to the end of it.

    What was ready before a failure is handed on. Raises EmbeddingError, LedgerError or Closed.
    """
    failure = None
    try:
        finished = _embed_all(opened, staging, grouping, should_stop)
    except KnowportError as error:
        failure = error
    grouping.take(staging.ready())
    grouping.flush()
    if failure:
        raise failure
    return finished


def _embed_all(
    opened: Channel[Opened | Settled],
    staging: Staging,
    grouping: _Grouping,
    should_stop: Callable[[], bool],
) -> bool:
    def embed(at_least: int) -> bool:
        """Embed while so many texts wait; returns whether to go on."""
        grouping.take(staging.ready())
        while staging.todo >= at_least:
            if should_stop():
                return False
            staging.embed()
            grouping.take(staging.ready())
        return not should_stop()

    def add(items: Sequence[Opened | Settled]) -> bool:
        return all(embed(staging.batch_size) for _ in staging.add(items))

    ended = False
    while not ended:
        # No name holds the items while the next ones are waited for: they may be large.
        match opened.take(TAKEN_FILES, POLL_SECONDS):
            case None:  # the next file takes long, or waits for room
                go_on = embed(1)
                grouping.flush()
            case []:
                go_on, ended = embed(1), True
            case items:
                go_on = add(items)
                del items
        if not go_on:
            return False
    return True
