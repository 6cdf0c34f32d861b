"""The connection to a Milvus, what that Milvus can do, and its errors in our words.

Which engine stands behind a URI is found out here, once, and told as plain facts
(``lexical``, ``bm25_sign``) so that nothing else asks about products and versions.
"""

from __future__ import annotations

import logging
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from pymilvus import MilvusClient
from pymilvus.exceptions import ConnectionConfigException, MilvusException

from knowport.adapters.milvus import embedded as files
from knowport.adapters.milvus.room import is_embedded
from knowport.errors import ConfigurationError, EngineError, EngineUnavailable

# pymilvus logs every failed call with its whole traceback; we raise the failure instead.
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
# Lite 2.5.1 asks pkg_resources for its own version, which warns whoever runs it.
warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)

# The client pings an idle connection every ten seconds, which the embedded engine, and a server of
# Lite, takes for an attack and hangs up on. A socket file needs no pings at all; to a server they
# tell while a call waits whether anybody is there.
_QUIET = {"grpc.keepalive_permit_without_calls": False}
_SILENT = {**_QUIET, "grpc.keepalive_time_ms": 2**31 - 1}
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
    _process: int | None  # of the embedded engine
    _opened: ExitStack = field(repr=False, compare=False)

    @classmethod
    def connect(cls, uri: str, *, token: str = "", timeout: float = 30.0) -> Engine:
        """Open a server (``http://host:port``) or an embedded file (a path).

        ``timeout`` bounds each call, in seconds. Raises IndexInUse, EngineUnavailable, EngineFull,
        ConfigurationError.
        """
        embedded = is_embedded(uri)
        with ExitStack() as opened:
            if embedded:
                files.claim(Path(uri).resolve())
                opened.callback(files.release, Path(uri).resolve())
            with translated(uri):
                try:
                    with files.starting(Path(uri)) if embedded else nullcontext():
                        client = _client(uri, token, timeout, embedded=embedded)
                except ConnectionConfigException as error:
                    if embedded:
                        raise files.cannot_open(Path(uri)) from error
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
            _process=files.engine_process(Path(uri).resolve()) if embedded else None,
            _opened=to_close,
        )

    @property
    def ended(self) -> bool:
        """Whether the embedded engine is gone: it is not started anew, and nothing works then."""
        return self._process is not None and not files.runs(self._process)

    def close(self) -> None:
        """Close the connection; the last one to an embedded file in this process frees it."""
        self._opened.close()


def _client(uri: str, token: str, timeout: float, *, embedded: bool) -> MilvusClient:
    """A connected client. Lite gives its engine half a second to listen, and a busy machine takes
    longer; so an embedded one is asked again, and so is a server that hung up on another client of
    this process, because pymilvus shares the connection."""
    options = _SILENT if embedded else _QUIET
    deadline = time.monotonic() + timeout
    while True:
        try:
            return MilvusClient(uri, token=token, timeout=timeout, grpc_options=options)
        except MilvusException as error:
            away = "Fail connecting" in str(error.message)
            if not (away and (embedded or _hung_up(error))) or time.monotonic() > deadline:
                raise
        time.sleep(_LISTENS_WITHIN)


def _hung_up(error: MilvusException) -> bool:
    """Whether a server ended a connection that others in this process pinged it over."""
    cause = error.__cause__ or error.__context__
    return isinstance(cause, grpc.Call) and "pings" in (cause.details() or "")


def _has_bm25(version: str) -> bool:
    number = re.match(r"v?(\d+)\.(\d+)", version)
    return number is None or (int(number[1]), int(number[2])) >= (2, 5)


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
        remedy="Check that it runs, and milvus.uri and milvus.token. An embedded engine starts "
        "with the process that uses it.",
    )


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= 300 else line[:300] + "…"
