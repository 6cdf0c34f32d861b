"""The connection to a Milvus, what that Milvus can do, and its errors in our words.

Which engine stands behind a URI is found out here, once, and told as plain facts
(``lexical``, ``bm25_sign``) so that nothing else asks about products and versions.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import struct
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from pymilvus import MilvusClient
from pymilvus.exceptions import ConnectionConfigException, MilvusException

from knowport.errors import ConfigurationError, EngineError, EngineUnavailable, IndexInUse

# pymilvus logs every failed call with its whole traceback; we raise the failure instead.
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
# Lite 2.5.1 asks pkg_resources for its own version, which warns whoever runs it.
warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)

# pymilvus takes a path for an embedded file by its ".db"; Lite 2.5.1 limits the rest.
_EMBEDDED_NAME = re.compile(r"(?=.{4,36}\Z)[a-zA-Z0-9.\-_]+\.db")
# The client pings an idle connection every ten seconds, which the embedded engine takes for an
# attack and hangs up on. A socket file needs no pings.
_QUIET = {"grpc.keepalive_time_ms": 2**31 - 1, "grpc.keepalive_permit_without_calls": False}
# How long an engine may take to end after its process.
ENDING_SECONDS = 15.0
_LISTENS_WITHIN = 0.1  # seconds between two looks whether the embedded engine listens
_UNAVAILABLE = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Engine:
    """An open connection.

    ``lexical``   the engine has sparse vectors and the BM25 function (Milvus 2.5 and later)
    ``bm25_sign`` what a BM25 distance is multiplied by so that more is better and it is positive
    """

    client: MilvusClient
    uri: str
    version: str
    lexical: bool
    bm25_sign: float
    timeout: float
    _opened: ExitStack = field(repr=False, compare=False)

    @classmethod
    def connect(cls, uri: str, *, token: str = "", timeout: float = 30.0) -> Engine:
        """Open a server (``http://host:port``) or an embedded file (a path).

        ``timeout`` bounds each call, in seconds. Raises IndexInUse, EngineUnavailable,
        ConfigurationError.
        """
        embedded = "://" not in uri
        with ExitStack() as opened:
            if embedded:
                _claim(Path(uri).resolve())
                opened.callback(_release, Path(uri).resolve())
            with translated(uri):
                try:
                    with _child_output_on_stderr() if embedded else nullcontext():
                        client = _client(uri, token, timeout, embedded=embedded)
                except ConnectionConfigException as error:
                    if embedded:
                        raise _cannot_open(Path(uri)) from error
                    raise ConfigurationError(
                        f"milvus.uri {uri!r} cannot be used: {error.message}.",
                        remedy="Give http://host:port, or a file path for the embedded engine.",
                    ) from error
                opened.callback(client.close)
                version = "embedded" if embedded else client.get_server_version(timeout=timeout)
            to_close = opened.pop_all()
        return cls(
            client=client,
            uri=uri,
            version=version,
            lexical=_has_bm25(version),
            # The pure-Python Lite returns BM25 distances with a negative sign.
            bm25_sign=-1.0 if version.startswith("milvus_lite-3") else 1.0,
            timeout=timeout,
            _opened=to_close,
        )

    def close(self) -> None:
        """Close the connection; the last one to an embedded file in this process frees it."""
        self._opened.close()


def _client(uri: str, token: str, timeout: float, *, embedded: bool) -> MilvusClient:
    """A connected client. Lite gives its engine half a second to listen, and a busy machine takes
    longer; so an embedded one is asked again."""
    options = _QUIET if embedded else {}
    deadline = time.monotonic() + timeout
    while True:
        try:
            return MilvusClient(uri, token=token, timeout=timeout, grpc_options=options)
        except MilvusException as error:
            away = "Fail connecting" in str(error.message)
            if not (embedded and away) or time.monotonic() > deadline:
                raise
        time.sleep(_LISTENS_WITHIN)


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


def _has_bm25(version: str) -> bool:
    number = re.match(r"v?(\d+)\.(\d+)", version)
    return number is None or (int(number[1]), int(number[2])) >= (2, 5)


# Connections of this process to embedded files. Lite runs one engine a file for all of them.
_embedded: Counter[Path] = Counter()
_embedded_guard = threading.Lock()


def _claim(path: Path) -> None:
    with _embedded_guard:
        if not _embedded[path]:
            _prepare_embedded(path)
        _embedded[path] += 1


def _release(path: Path) -> None:
    with _embedded_guard:
        _embedded[path] -= 1
        if not _embedded[path]:
            from milvus_lite.server_manager import server_manager_instance  # noqa: PLC0415

            server_manager_instance.release_server(str(path))  # pymilvus leaves it running


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
        raise ConfigurationError(
            f"The folder {path.parent} cannot be made: {error.strerror}.",
            remedy="Choose another home (KNOWPORT_HOME) or mend its permissions.",
        ) from error
    if not os.access(path.parent, os.W_OK):
        raise ConfigurationError(
            f"The folder {path.parent} cannot be written.",
            remedy="Choose another home (KNOWPORT_HOME) or mend its permissions.",
        )
    _wait_for_ending_engine(path)


def _wait_for_ending_engine(path: Path) -> None:
    """Refuse a file that another process uses; wait where it has ended and its engine has not.

    A process that is killed frees the lock at once. Its engine works off what it was asked for
    and ends a second or two later. One that is started beside it fails, or does not see what the
    old one still writes.
    """
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        engine, holder = _engine_process(path), _lock_holder(path)
        if holder not in (None, engine):
            raise _in_use(path, holder)
        if engine is None:
            return
        if time.monotonic() > deadline:
            raise _in_use(path, engine)
        time.sleep(0.02)


def _engine_process(path: Path) -> int | None:
    """The process of another that runs an engine on the file."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if arguments[0].endswith(b"/milvus") and arguments[1:2] == [os.fsencode(path)]:
            return int(process.name)
    return None


def _cannot_open(path: Path) -> IndexInUse | EngineError:
    """Why the engine did not start: another process was quicker, or the file is no index."""
    holder = _lock_holder(path)
    if holder is not None:
        return _in_use(path, holder)
    return EngineError(
        f"The embedded engine does not start on {path}: it is not a readable index, or the disk "
        "or memory is full.",
        remedy="Restore the file from a copy, or ingest into a new home (KNOWPORT_HOME).",
    )


def _in_use(path: Path, holder: int) -> IndexInUse:
    return IndexInUse(
        f"The index file {path} is in use by process {holder}.",
        remedy="Wait for it to end, or let several processes share one Milvus server "
        '(milvus.uri = "http://host:19530").',
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
def translated(what: str) -> Iterator[None]:
    """Turn the client's exceptions into ours; ``what`` names the thing that was asked."""
    try:
        yield
    except MilvusException as error:
        text = str(error.message)
        if error.code in _UNAVAILABLE or "Fail connecting" in text or "Retry timeout" in text:
            raise _unavailable(what, text) from error
        raise EngineError(f"Milvus failed on {what}: {_short(text)}.") from error
    except grpc.RpcError as error:
        code = error.code() if isinstance(error, grpc.Call) else None
        detail = (error.details() if isinstance(error, grpc.Call) else None) or str(code)
        if code in _UNAVAILABLE:
            raise _unavailable(what, detail) from error
        raise EngineError(f"Milvus failed on {what}: {_short(detail)}.") from error


def _unavailable(what: str, detail: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"Milvus cannot be reached ({what}): {_short(detail)}.",
        remedy="Check that it runs, and milvus.uri and milvus.token.",
    )


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= 300 else line[:300] + "…"
