"""What a database says went wrong, in the words of Knowport."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from knowport.errors import LedgerBusy, LedgerError

# SQLite's primary result codes and PostgreSQL's SQLSTATEs.
_FULL = {sqlite3.SQLITE_FULL, "53100"}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03"}
_READ_ONLY = {sqlite3.SQLITE_READONLY, "25006"}


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Errors of the database as LedgerError; ``where`` names the ledger."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _translation(where, error) from error


def read_only(where: str) -> LedgerError:
    return LedgerError(
        f"The ledger {where} can be read only, and this would write to it.",
        remedy="Make its file and its folder writable, or work on a copy.",
    )


def _translation(where: str, error: SQLAlchemyError) -> LedgerError:
    cause = getattr(error, "orig", None) or error
    code = _code(cause)
    if code in _FULL:
        return LedgerError(
            f"The ledger {where} cannot be written: its disk is full.",
            remedy="Make room there, then run the same again. What was stored before is whole.",
        )
    if code in _BUSY:
        return LedgerBusy(
            f"Another process is writing to the ledger {where} and does not let go.",
            remedy="Try again when it is done.",
        )
    if code in _READ_ONLY:
        return read_only(where)
    return LedgerError(
        f"The ledger {where} failed: {' '.join(str(cause).split())[:300]}.",
        remedy="Check that it can be reached and written, and that its disk has room.",
    )


def _code(cause: BaseException) -> int | str | None:
    if isinstance(cause, sqlite3.Error):
        extended = getattr(cause, "sqlite_errorcode", None)
        return None if extended is None else extended & 0xFF
    return getattr(cause, "sqlstate", None)
