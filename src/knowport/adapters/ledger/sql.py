"""The ledger port over SQLAlchemy Core: SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from sqlalchemy import URL

from knowport.adapters.ledger.database import Database
from knowport.adapters.ledger.documents import DocumentStore
from knowport.adapters.ledger.exclusive import REBUILDING, exclusive
from knowport.adapters.ledger.generations import GenerationStore
from knowport.adapters.ledger.keys import KeyStore
from knowport.adapters.ledger.schema import bring_up
from knowport.adapters.ledger.traces import TraceStore
from knowport.adapters.ledger.vectors import VectorStore
from knowport.errors import LedgerBusy, RebuildError


class SqlLedger(GenerationStore, DocumentStore, TraceStore, VectorStore, KeyStore):
    """See ``knowport.ports.Ledger``. Safe to use from several threads.

    A SQLite file that is not writable, or in a folder that is not, can still be read.
    """

    def __init__(self, url: str | URL, *, exclusive_seconds: float = 60.0) -> None:
        """Open, and create or migrate the tables where needed.

        ``exclusive_seconds`` is how long ``exclusive`` waits. Raises ConfigurationError,
        LedgerError.
        """
        super().__init__(Database(url))
        self._exclusive_seconds = exclusive_seconds
        try:
            bring_up(self._database)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._database.close()

    @property
    def read_only(self) -> bool:
        """Whether it can be read only, because its file or its folder is not writable."""
        return self._database.read_only

    @property
    def where(self) -> str:
        """The file, or the URL without its password."""
        return self._database.where

    def exclusive(self) -> AbstractContextManager[None]:
        return exclusive(self._database, self._exclusive_seconds)

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(self._database, 0, REBUILDING))
            except LedgerBusy as error:
                raise RebuildError(
                    f"Another rebuild command is at work. {error.message}",
                    remedy="Wait for it to end; `knowport rebuild status` shows how far it is.",
                ) from error
            yield
