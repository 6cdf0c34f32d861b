"""The embedded engine: a process of its own for one file, and who may use that file."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from knowport.adapters.disk import says_full
from knowport.adapters.milvus.room import full, lacks, room
from knowport.errors import ConfigurationError, EngineError, IndexInUse

# pymilvus takes a path for an embedded file by its ".db"; Lite 2.5.1 limits the rest.
_EMBEDDED_NAME = re.compile(r"(?=.{4,36}\Z)[a-zA-Z0-9.\-_]+\.db")
# How long an engine may take to end after its process.
ENDING_SECONDS = 15.0


# Connections of this process to embedded files. Lite runs one engine a file for all of them.
_embedded: Counter[Path] = Counter()
_locks: dict[Path, int] = {}
_embedded_guard = threading.Lock()


def claim(path: Path) -> None:
    """Count a connection to a file that nobody else uses.

    Raises IndexInUse, EngineFull or ConfigurationError.
    """
    with _embedded_guard:
        if not _embedded[path]:
            _prepare_embedded(path)
            _locks[path] = _lock(path)
            try:
                _wait_for_ending_engine(path)
            except BaseException:
                _unlock(path)
                raise
        _embedded[path] += 1


def release(path: Path) -> None:
    """Give one connection up; with the last one the engine ends."""
    with _embedded_guard:
        _embedded[path] -= 1
        if not _embedded[path]:
            from milvus_lite.server_manager import server_manager_instance  # noqa: PLC0415

            try:
                # An interrupted start leaves none, of which Lite would complain aloud.
                if str(path) in getattr(server_manager_instance, "_servers", [str(path)]):
                    server_manager_instance.release_server(str(path))  # pymilvus leaves it running
            finally:
                _unlock(path)


def _prepare_embedded(path: Path) -> None:
    if not _EMBEDDED_NAME.fullmatch(path.name):
        raise ConfigurationError(
            f"The embedded file cannot be named {path.name!r}.",
            remedy="In milvus.uri, give a name that ends in .db and has at most 36 of the "
            "characters a-z, A-Z, 0-9, '.', '-' and '_'.",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if says_full(error):
            raise full(path.parent, "it cannot be made") from error
        raise ConfigurationError(
            f"The folder {path.parent} cannot be made: {error.strerror}.",
            remedy="Choose another home (KNOWPORT_HOME) or mend its permissions.",
        ) from error
    for needed in (path.parent, path, _owner_file(path)):
        if needed.exists() and not os.access(needed, os.W_OK, effective_ids=True):
            raise ConfigurationError(
                f"{needed} can be read only, and the embedded engine writes there also to look "
                "something up.",
                remedy="Mend its permissions, or work on a copy that can be written (KNOWPORT_HOME)"
                "; with a Milvus server (milvus.uri) the home may be read-only.",
            )
    if not path.exists():
        with room(str(path)):
            pass


def _owner_file(path: Path) -> Path:
    return path.parent / f".{path.name}.owner"


def _lock(path: Path) -> int:
    """Lock the file for this process, before Lite is asked to start an engine on it.

    Lite has a lock of its own, but of two that start at once the one that does not get it deletes
    it, and then neither of them has an engine. Raises IndexInUse or EngineFull.
    """
    try:
        file = os.open(_owner_file(path), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if says_full(error):
            raise full(path.parent, f"{path.name} cannot be locked") from error
        raise
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(file, 20, 0)
        os.close(file)
        raise _in_use(path, int(owner) if owner.isdigit() else None) from None
    with suppress(OSError):  # a full disk: others are then told of another process without number
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
    return file


def _unlock(path: Path) -> None:
    lock = _locks.pop(path, None)
    if lock is not None:  # else this process is a child of the owner
        os.close(lock)


def _leave_locks() -> None:
    """A child would keep the locks of its parent for as long as it lives."""
    for path in list(_locks):
        _unlock(path)


os.register_at_fork(after_in_child=_leave_locks)


def _wait_for_ending_engine(path: Path) -> None:
    """Refuse a file that another process uses; wait where it has ended and its engine has not.

    A process that is killed frees the lock at once. Its engine works off what it was asked for
    and ends a second or two later. One that is started beside it fails, or does not see what the
    old one still writes.
    """
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        engine, holder = engine_process(path), _lock_holder(path)
        if holder not in (None, engine):
            raise _in_use(path, holder)
        if engine is None:
            return
        if time.monotonic() > deadline:
            raise _in_use(path, engine)
        time.sleep(0.02)


def engine_process(path: Path) -> int | None:
    """The process that runs an engine on the file."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if arguments[0].endswith(b"/milvus") and arguments[1:2] == [os.fsencode(path)]:
            return int(process.name)
    return None


def runs(process: int) -> bool:
    """Whether a process lives; one that has ended and is not waited for does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def cannot_open(path: Path) -> IndexInUse | EngineError:
    """Why the engine did not start: another process was quicker, or the file is no index."""
    holder = _lock_holder(path)
    if holder is not None:
        return _in_use(path, holder)
    if lacks(path.parent):
        return full(path.parent, f"the embedded engine does not start on {path.name}")
    return EngineError(
        f"The embedded engine does not start on {path}: it is not a readable index, or memory is "
        "full.",
        remedy="Restore the file from a copy, or ingest into a new home (KNOWPORT_HOME).",
    )


def _in_use(path: Path, holder: int | None) -> IndexInUse:
    process = "another process" if holder is None else f"process {holder}"
    return IndexInUse(
        f"The index file {path} is in use by {process}.",
        remedy="Stop it, or ask it with --server URL if it is `knowport serve`. Several processes "
        'can share one Milvus server (milvus.uri = "http://host:19530").',
    )


def _lock_holder(path: Path) -> int | None:
    """The process that locks the embedded file, asked of the kernel without taking the lock.

    Not to be asked while this process has the file open: closing any handle of a lock file gives
    up the locks that the process itself holds on it, and Lite then stops.
    """
    try:
        with (path.parent / f".{path.name}.lock").open("rb") as lock:
            layout = "hhqqi4x"  # struct flock on 64-bit Linux: type, whence, start, length, pid
            asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(layout, fcntl.fcntl(lock, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return None if kind == fcntl.F_UNLCK else pid


@contextmanager
def starting(file: Path) -> Iterator[None]:
    """What pymilvus leaves to chance when it starts the embedded engine."""
    with _child_output_on_stderr(), _scratch_of_its_own(file.absolute()):
        yield


@contextmanager
def _scratch_of_its_own(file: Path) -> Iterator[None]:
    """The embedded engine makes scratch files in ``~/.cache/milvus`` at its first collection, and
    removes that folder when it ends. Of two engines that make it at the same moment one then
    fails at everything, and an account of a service often has no home at all. So each engine
    gets a folder beside its file for a home."""
    kept = os.environ.get("HOME")
    os.environ["HOME"] = str(file.parent / f".{file.name}.scratch")
    try:
        yield
    finally:
        if kept is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = kept


@contextmanager
def _child_output_on_stderr() -> Iterator[None]:
    """The embedded engine is a child process that writes its log to the standard output it is
    started with. Ours carries results, so the child gets standard error instead."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
