"""The ledger alone, for what needs no engine: it can be used beside a running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from knowport.adapters.ledger import SqlLedger
from knowport.ports import Ledger
from knowport.settings import Settings


@contextmanager
def opened_ledger(settings: Settings) -> Iterator[Ledger]:
    """The ledger of the settings. Raises ConfigurationError or LedgerError."""
    ledger = SqlLedger(settings.ledger_url)
    try:
        yield ledger
    finally:
        ledger.close()
