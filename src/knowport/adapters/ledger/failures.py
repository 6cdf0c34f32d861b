"""What a database says went wrong, in the words of Knowport."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from knowport.adapters.disk import free_bytes, left_in
from knowport.errors import LedgerBusy, LedgerError, LedgerFull

# SQLite's primary result codes and PostgreSQL's SQLSTATEs.
_FULL = {sqlite3.SQLITE_FULL, "53100"}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03"}
_READ_ONLY = {sqlite3.SQLITE_READONLY, "25006"}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# What a full disk may look like as well: no room for the file that its readers share (32 KiB).
_MAYBE_FULL = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
_LEAST_BYTES = 64 << 10
# How Python's module, which gives no code then, begins to tell of a text that is not UTF-8.
_NO_TEXT = "Could not decode"


@contextmanager
def translated(where: str, file: Path | None = None) -> Iterator[None]:
    """Errors of the database as LedgerError; ``where`` names the ledger, ``file`` is SQLite's."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _translation(where, file, error) from error
    except json.JSONDecodeError as error:  # of a value that is stored as JSON
        raise damaged(where, "a stored value is not JSON") from error


def read_only(where: str) -> LedgerError:
    return LedgerError(
        f"The ledger {where} can be read only, and this would write to it.",
        remedy="Make its file and its folder writable, or work on a copy.",
    )


def damaged(where: str, problem: str) -> LedgerError:
    """For a ledger that cannot be read, whatever is tried."""
    return LedgerError(
        f"The ledger {where} is damaged or is none: {problem}.",
        remedy="Restore it from a copy. Without one, move it and the index away (milvus.db, in "
        "the same home; on a Milvus server set another milvus.collection) and run `knowport "
        "ingest` again. Lost are then: documents that came without a file, access keys, traces, "
        "and the histories of documents.",
    )


def _translation(where: str, file: Path | None, error: SQLAlchemyError) -> LedgerError:
    cause = getattr(error, "orig", None) or error
    code, said = _code(cause), " ".join(str(cause).split())[:300].rstrip(".")
    if code in _FULL or (file and code in _MAYBE_FULL and _has_no_room(file)):
        return full(where, file)
    if code in _BUSY:
        return LedgerBusy(
            f"Another process is writing to the ledger {where} and does not let go.",
            remedy="Try again when it is done.",
        )
    if code in _READ_ONLY:
        return read_only(where)
    if code in _DAMAGED or (file and said.startswith(_NO_TEXT)):
        return damaged(where, said)
    if file and file.is_dir():
        return damaged(where, "it is a folder")
    return LedgerError(
        f"The ledger {where} failed: {said}.",
        remedy="Check that it can be reached and written, and that its disk has room.",
    )


def full(where: str, file: Path | None) -> LedgerFull:
    """For a disk without room; of a database server (``file`` is None) or of a file."""
    room = f"{left_in(file.absolute().parent)}, and " if file else ""
    at = "there" if file else "on the database server"
    return LedgerFull(
        f"The disk is full: {room}the ledger {where} cannot be written.",
        remedy=f"Free space {at}, then run the same again. Nothing that was indexed is lost.",
    )


def _has_no_room(file: Path) -> bool:
    free = free_bytes(file.absolute().parent)
    return free is not None and free < _LEAST_BYTES


def _code(cause: BaseException) -> int | str | None:
    if isinstance(cause, sqlite3.Error):
        extended = getattr(cause, "sqlite_errorcode", None)
        return None if extended is None else extended & 0xFF
    return getattr(cause, "sqlstate", None)
