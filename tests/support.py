"""Helpers of the end-to-end tests: embedders that cost little, folders, the command line."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from knowport import KnowledgeBase
from knowport.model import EmbedderIdentity, Matrix, Vector
from knowport.ports import Embedder

REPOSITORY = Path(__file__).parents[1]
OPS_KB = REPOSITORY / "examples" / "ops-kb"


def cache_folder() -> Path:
    """Where tests keep what is dear to make: ``.cache`` here, or KNOWPORT_TEST_CACHE."""
    folder = Path(os.environ.get("KNOWPORT_TEST_CACHE") or REPOSITORY / ".cache")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class CachingEmbedder:
    """A real embedder whose vectors are kept between runs; same identity, same vectors.

    Those of the example base are recorded in ``golden/vectors.npz``. The cache is an SQLite file
    with one short transaction for each call, so that two test runs may use it at once; what both
    make is the same.
    """

    def __init__(self, inner: Embedder, folder: Path | None = None) -> None:
        self._inner = inner
        self._file = (folder or cache_folder()) / "vectors.sqlite3"
        self._identity = json.dumps(asdict(inner.identity), sort_keys=True)
        with self._open() as cache:
            cache.execute("CREATE TABLE IF NOT EXISTS vectors (name TEXT PRIMARY KEY, vector BLOB)")

    @property
    def identity(self) -> EmbedderIdentity:
        return self._inner.identity

    @property
    def batch_size(self) -> int:
        return self._inner.batch_size

    def embed_query(self, text: str) -> Vector:
        name = self._name("query", text)
        known = self._known([name])
        if name not in known:
            known[name] = self._inner.embed_query(text)
            self._keep(known)
        return known[name]

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        names = [self._name("document", text) for text in texts]
        known = self._known(names)
        missing = {n: t for n, t in zip(names, texts, strict=True) if n not in known}
        if missing:
            made = self._inner.embed_documents(list(missing.values()))
            new = dict(zip(missing, made, strict=True))
            self._keep(new)
            known.update(new)
        return np.stack([known[name] for name in names])

    def _name(self, kind: str, text: str) -> str:
        return hashlib.sha256(f"{self._identity}\n{kind}\n{text}".encode()).hexdigest()

    def _known(self, names: Sequence[str]) -> dict[str, Vector]:
        recorded = recorded_vectors()
        known = {name: recorded[name] for name in names if name in recorded}
        others = [name for name in names if name not in known]
        marks = ",".join("?" * len(others))
        with self._open() as cache:
            rows = cache.execute(
                f"SELECT name, vector FROM vectors WHERE name IN ({marks})", others
            )
            cached = rows.fetchall()
        return known | {name: np.frombuffer(blob, np.float32).copy() for name, blob in cached}

    def _keep(self, vectors: Mapping[str, Vector]) -> None:
        rows = [(name, v.astype(np.float32).tobytes()) for name, v in vectors.items()]
        with self._open() as cache:
            cache.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        cache = sqlite3.connect(self._file, timeout=30)
        try:
            with cache:
                yield cache
        finally:
            cache.close()


@functools.cache
def recorded_vectors() -> Mapping[str, Vector]:
    """What ``golden/record_vectors.py`` wrote, by the names of ``CachingEmbedder``."""
    file = Path(__file__).parent / "golden" / "vectors.npz"
    if not file.exists():
        return {}
    with np.load(file) as recorded:
        names = [bytes(name).hex() for name in recorded["names"]]
        return dict(zip(names, recorded["vectors"], strict=True))


class HashEmbedder:
    """A fake that needs no model: a text is the sum of its character bigrams.

    The direction of a bigram comes from its SHA-256, so that it is the same everywhere. All
    vectors share a part that makes unrelated texts about 0.6 alike, as real models do; equal
    texts are 1.0 alike, and what shares bigrams lies between.
    """

    dimension = 64

    def __init__(self, *, model: str = "bigrams", batch_size: int = 16) -> None:
        self.identity = EmbedderIdentity("hash", model, self.dimension)
        self.batch_size = batch_size
        self.documents_embedded = 0

    def embed_query(self, text: str) -> Vector:
        return _hashed(text)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        self.documents_embedded += len(texts)
        return np.stack([_hashed(text) for text in texts])


def _hashed(text: str) -> Vector:
    folded = f" {unicodedata.normalize('NFKC', text).lower()} "
    total = sum(_direction(folded[i : i + 2]) for i in range(len(folded) - 1))
    own = np.asarray(total, dtype=np.float64)
    vector = np.concatenate(([np.sqrt(1.5)], own / max(float(np.linalg.norm(own)), 1e-9)))
    return (vector / np.linalg.norm(vector)).astype(np.float32)


@functools.lru_cache(maxsize=100_000)
def _direction(bigram: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    bits = np.frombuffer(hashlib.sha256(bigram.encode()).digest(), dtype=np.uint8)
    return np.unpackbits(bits)[: HashEmbedder.dimension - 1].astype(np.float64) * 2 - 1


def make_folder(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files by their path below ``folder``; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


class Driver:
    """The process of ``driver.py``, which forks a process for each job."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("driver.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        self._handle: int | None = None

    def start(self, **job: Any) -> int:
        """Start a job; returns the id of its process, which leads a process group."""
        assert self._process.stdin
        if self._handle is not None:  # left by a test that failed
            self.kill()
            self.ended()
        self._process.stdin.write(json.dumps(job, default=str) + "\n")
        self._process.stdin.flush()
        name, pid = self.until("started").split()
        assert name == "started"
        # A handle, because the id may be another process's by the time a signal is sent.
        self._handle = os.pidfd_open(int(pid))
        return int(pid)

    def until(self, event: str) -> str:
        """The next event of that name; "ended", which comes last, is one for all."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("ended") and self._handle is not None:
                os.close(self._handle)
                self._handle = None
            if line.startswith((event, "ended")):
                return line.strip()
        raise AssertionError("the driver ended")

    def ended(self) -> int:
        """Wait for the job's end; its exit code, or minus the signal that ended it."""
        return int(self.until("ended").split()[1])

    def run(self, **job: Any) -> int:
        self.start(**job)
        return self.ended()

    def kill(self) -> None:
        """SIGKILL for the job, if it still runs."""
        assert self._handle is not None
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=30)


@functools.cache
def driver() -> Driver:
    """The one of this test run."""
    started = Driver()
    atexit.register(started.close)
    return started


def knowport(
    *arguments: str | Path,
    home: Path,
    environment: Mapping[str, str] | None = None,
    hash_embedder: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, forked from one that has imported it."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        code = driver().run(
            do="cli",
            arguments=[*map(str, arguments), f"--home={home}"],
            environment=clean_environment(environment),
            folder=home.parent,
            stdout=stdout,
            stderr=stderr,
            **({"seconds_per_text": 0} if hash_embedder else {}),
        )
        texts = [file.read_text("utf-8") for file in (stdout, stderr)]
    return subprocess.CompletedProcess(arguments, code, *texts)


def knowport_from_scratch(
    *arguments: str | Path, home: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does, with a new interpreter; takes seconds."""
    return subprocess.run(
        command(*arguments, home=home),
        capture_output=True,
        encoding="utf-8",
        env=clean_environment(environment),
        cwd=home.parent,
        timeout=120,
        check=False,
    )


def command(*arguments: str | Path, home: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "knowport.entrypoints.start",
        *map(str, arguments),
        f"--home={home}",
    ]


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without settings of ours, and with ``more``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KNOWPORT_")}
    return {**kept, **(more or {})}


def children_of(process: int) -> dict[int, str]:
    """The command of each child of a process, by its id. Threads and children may end meanwhile."""
    found = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in _proc(task / "children").split():
            if command := _proc(Path("/proc", child, "cmdline")):
                found[int(child)] = command
    return found


def _proc(file: Path) -> str:
    """A file of /proc; '' where what it tells of has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return file.read_text(errors="replace")
    return ""


def page(title: str, parts: Sequence[str]) -> str:
    """A Markdown page with a section, so a chunk, for each part."""
    sections = [f"## {title} section {n}\n\n{part}\n" for n, part in enumerate(parts)]
    return f"# {title}\n\n" + "\n".join(sections)


def mark(*of: object) -> str:
    """Words that stand nowhere else, the same for the same arguments; found in both modes."""
    digest = hashlib.sha256(repr(of).encode()).hexdigest()
    return " ".join(digest[i : i + 8] for i in range(0, 64, 8))


def stored_chunks(kb: KnowledgeBase) -> list[str]:
    """Every chunk id that the engine holds, of all scopes."""
    return [] if kb._parts.index is None else list(kb._parts.index.iter_ids())


def serve_from(kb: KnowledgeBase, index: Any) -> None:
    """Let lookups read another index than the generation's; None: as before any ingest."""
    kb._parts._pointer.change(lambda held: replace(held, index=index))
