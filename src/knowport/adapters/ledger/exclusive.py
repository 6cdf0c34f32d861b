"""One writer, and one rebuild, at a time among the threads, processes and hosts of a ledger.

Threads of a process take turns first, in order of their coming; the one whose turn it is then
competes with other processes: on SQLite for a lock on a file beside the database, on PostgreSQL
for an advisory lock of a session. The system frees either when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from knowport.adapters.disk import says_full
from knowport.adapters.ledger.database import Database
from knowport.adapters.ledger.failures import full, read_only, translated
from knowport.errors import LedgerBusy, LedgerError

# A number that no other user of a PostgreSQL database takes for its advisory locks.
_SPACE = 0x6B6E6F77
_LOCK_NOT_AVAILABLE = "55P03"
# Of one width: to cut a file short makes ext4 wait for the disk.
_PID_WIDTH = 20
_SHORTEST_WAIT, _LONGEST_WAIT = 0.001, 0.02

_HOLDERS = text(
    "SELECT a.pid, a.application_name, host(a.client_addr) FROM pg_locks l"
    " JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.granted"
    " AND l.classid = :space AND l.objid = :number AND l.objsubid = 2"
)


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a lock is for: ``suffix`` of its file, ``number`` of its advisory lock."""

    name: str
    suffix: str
    number: int

    @property
    def advisory(self) -> dict[str, int]:
        return {"space": _SPACE, "number": self.number}


WRITING = Purpose("writing", ".lock", 1)
REBUILDING = Purpose("a rebuild", ".rebuild.lock", 2)


@contextmanager
def exclusive(database: Database, seconds: float, purpose: Purpose = WRITING) -> Iterator[None]:
    """Held by one at a time; waits ``seconds``, then raises LedgerBusy. Not re-entrant."""
    if database.read_only:
        raise read_only(database.where)
    wanted = _Wanted(purpose, database.where, time.monotonic() + seconds)
    with _turn(f"{database.identity}{purpose.suffix}", wanted):
        if database.file is not None:
            with _file_lock(Path(f"{database.identity}{purpose.suffix}"), wanted):
                yield
        else:
            with _advisory_lock(database, wanted):
                yield


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A lock that is waited for until ``deadline``; ``where`` names the ledger."""

    purpose: Purpose
    where: str
    deadline: float

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

    def busy(self, holder: str) -> LedgerBusy:
        return LedgerBusy(
            f"The ledger {self.where} is held for {self.purpose.name} by {holder}.",
            remedy="Try again when that is done.",
        )


# -- threads ----------------------------------------------------------------------------------


class _Turns:
    """Who waits for a ledger in this process, the one whose turn it is first."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: deque[object] = deque()


_TURNS: dict[str, _Turns] = {}
# File descriptors whose end is the end of a lock.
_HELD: set[int] = set()


@contextmanager
def _turn(name: str, wanted: _Wanted) -> Iterator[None]:
    turns = _TURNS.setdefault(name, _Turns())
    me = object()
    try:  # from here on, so that an interrupt at any moment gives the turn away
        with turns.changed:
            turns.waiting.append(me)
            if not turns.changed.wait_for(lambda: turns.waiting[0] is me, wanted.left):
                raise wanted.busy(f"another thread of this process ({os.getpid()})")
        yield
    finally:
        if _TURNS.get(name) is turns:  # not in a fork, whose other threads are gone
            with turns.changed:
                if me in turns.waiting:
                    turns.waiting.remove(me)
                turns.changed.notify_all()


def _forget() -> None:
    """A fork holds nothing of its parent's, and must not keep the parent's lock alive."""
    _TURNS.clear()
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for held in _HELD:  # not closed: their numbers would be given to other files
        os.dup2(nothing, held, inheritable=False)
    os.close(nothing)
    _HELD.clear()


os.register_at_fork(after_in_child=_forget)


# -- processes --------------------------------------------------------------------------------


@contextmanager
def _kept_from_forks(descriptor: int) -> Iterator[None]:
    _HELD.add(descriptor)
    try:
        yield
    finally:
        _HELD.discard(descriptor)


@contextmanager
def _file_lock(path: Path, wanted: _Wanted) -> Iterator[None]:
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
    except OSError as error:
        if says_full(error):
            raise full(wanted.where, path) from error
        raise LedgerError(
            f"The ledger {wanted.where} cannot be locked for {wanted.purpose.name}: {error}.",
            remedy="Mend the permissions of that file and its folder.",
        ) from error
    with file, _kept_from_forks(file.fileno()):  # to close it is to free it
        _lock_file(file, wanted)
        with suppress(OSError):  # it only tells others who holds it; the disk may be full
            file.write(f"{os.getpid():<{_PID_WIDTH}}".encode())
        yield


def _lock_file(file: IO[bytes], wanted: _Wanted) -> None:
    wait = _SHORTEST_WAIT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if wanted.left <= 0:
                holder = file.read(_PID_WIDTH).decode().strip()
                raise wanted.busy(f"process {holder or '(unknown)'}") from None
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)


@contextmanager
def _advisory_lock(database: Database, wanted: _Wanted) -> Iterator[None]:
    where, lock = database.where, wanted.purpose.advisory
    with translated(where):
        connection = database.engine.connect()
    session: Any = connection.connection.dbapi_connection
    with connection, _kept_from_forks(session.fileno()):
        try:
            with translated(where):
                _lock_session(connection, wanted)
            yield
            with translated(where):
                connection.execute(text("SELECT pg_advisory_unlock(:space, :number)"), lock)
                connection.commit()
        except BaseException:
            # The end of the session is the end of the lock, whatever has happened to both.
            connection.invalidate()
            raise


def _lock_session(connection: Connection, wanted: _Wanted) -> None:
    lock, milliseconds = wanted.purpose.advisory, max(1, int(1000 * wanted.left))
    try:
        connection.execute(text(f"SET LOCAL lock_timeout = {milliseconds}"))
        connection.execute(text("SELECT pg_advisory_lock(:space, :number)"), lock)
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        connection.rollback()
        holders = [
            f"session {pid} ({program or 'unnamed'}, {address or 'local'})"
            for pid, program, address in connection.execute(_HOLDERS, lock)
        ]
        raise wanted.busy(" and ".join(holders) or "another process") from error
    connection.commit()  # the lock is the session's, and an open transaction hinders the server
