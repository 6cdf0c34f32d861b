"""The last stage of an ingest: groups of documents into the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from knowport.errors import InvalidInput
from knowport.model import FileResult, Vector
from knowport.pipelines.flow import Channel, Closed, Room
from knowport.pipelines.ingest_ports import IngestPorts
from knowport.pipelines.opening import Opened, Settled
from knowport.pipelines.replace import (
    CachedChunks,
    Write,
    check_chunks,
    replace_documents,
    touch_files,
)
from knowport.pipelines.retry import with_retries
from knowport.pipelines.staging import Staged

Group = list[Staged]


class GroupWriter:
    """Writes groups in order; ``written`` counts chunks.

    What ``room`` was taken is given back.
    """

    def __init__(
        self, ports: IngestPorts, room: Room, on_result: Callable[[FileResult], None]
    ) -> None:
        self._ports, self._room, self._on_result = ports, room, on_result
        self.written = 0

    def run(self, groups: Channel[Group]) -> None:
        """Take groups until there are no more, or until the channel is closed in the midst of one.

        Raises EngineError, LedgerError or GenerationChanged; the groups before it are written.
        """
        try:
            while taken := groups.take():
                while taken:  # no name holds a group while the next one is waited for
                    self._write(taken.pop(0), groups)
        except Closed:
            return

    def _write(self, group: Group, groups: Channel[Group]) -> None:
        ports = self._ports
        writes, results = [], []
        for staged in group:
            result, write = self._checked(staged)
            results.append(result)
            if write is not None:
                writes.append(write)

        def go_on() -> None:
            if groups.closed:
                raise Closed

        def pause(seconds: float) -> None:
            groups.pause(seconds)
            go_on()

        def replace() -> None:
            replace_documents(
                writes,
                ports.ledger,
                ports.index,
                generation=ports.generation,
                between_slices=go_on,
            )

        if writes:
            with_retries(replace, sleep=pause)
        held = [s.item.document for s in group if isinstance(s.item, Settled) and s.item.document]
        if held:
            touch_files(held, ports.ledger, generation=ports.generation)
        self.written += sum(len(write.chunks) for write in writes)
        for staged, result in zip(group, results, strict=True):
            self._on_result(result)
            if isinstance(staged.item, Opened):
                self._room.give_back(staged.item.size)

    def _checked(self, staged: Staged) -> tuple[FileResult, Write | None]:
        """The result of a file if its document, where there is one to write, can be written."""
        item = staged.item
        if isinstance(item, Settled):
            return item.result, None
        if staged.failed:
            return staged.failed, None
        chunks = (
            CachedChunks(item.cut, self._cached)
            if staged.large
            else item.cut.indexed(staged.vectors)
        )
        write = Write(item.cut.document, chunks)
        try:
            check_chunks(write, self._ports.index)
        except InvalidInput as error:
            return item.failed(f"invalid_{error.field}", error), None
        return item.indexed(), write

    def _cached(self, names: Sequence[str]) -> Mapping[str, Vector]:
        return self._ports.ledger.cached_vectors(self._ports.embedder.identity, names)
