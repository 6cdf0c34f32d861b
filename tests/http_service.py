"""A service for tests: uvicorn in a thread, on a free port, over a knowledge base with a fake
embedder; and clients that speak to it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import structlog

from knowport import KnowledgeBase, load_settings
from knowport.entrypoints.http.server import Server, address_of, listen
from knowport.entrypoints.http.service import Service
from knowport.model import Matrix
from knowport.ports import Embedder
from support import HashEmbedder, clean_environment, driver

# What it logs is looked at where it runs as a process of its own.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

FILES = {
    "mysql/lock-wait.md": "# 锁等待\n\n## 现象\n\n支付库报 ERROR 1205 (HY000)，事务等不到行锁。\n\n"
    "## 处理\n\n查 `sys.innodb_lock_waits`，找到持锁的会话并终止它。\n",
    "redis/failover.md": "# Redis failover\n\nSentinel promotes a replica after "
    "down-after-milliseconds; clients must reconnect.\n",
    "notes.txt": "The badge printer on floor 3 uses cartridge HP-950XL.\n",
}


class GateEmbedder(HashEmbedder):
    """Embeds documents only while ``gate`` is open; ``held`` says that it waits."""

    def __init__(self) -> None:
        super().__init__(batch_size=4)
        self.gate, self.held = threading.Event(), threading.Event()
        self.gate.set()

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if not self.gate.is_set():
            self.held.set()
            assert self.gate.wait(120)
        return super().embed_documents(texts)


@dataclass
class Running:
    """A service that runs. ``client`` asks as whoever holds no key."""

    url: str
    kb: KnowledgeBase
    service: Service
    client: httpx.Client

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def key(self, scope: str = "default", role: Any = "reader", **more: Any) -> str:
        """A new access key, known to the service."""
        secret, _ = self.kb.access.create(kb_scope=scope, role=role, **more)
        self.kb.access.refresh()
        return secret

    def as_holder(self, key: str) -> httpx.Client:
        """A client that sends that key."""
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=30
        )

    def connect(self) -> socket.socket:
        """A bare connection, for what no client would send."""
        return socket.create_connection(self.address, timeout=30)


@contextmanager
def running(
    home: Path,
    server: Mapping[str, Any] | None = None,
    *,
    embedder: Embedder | None = None,
    settings: Mapping[str, Any] | None = None,
    documents: Mapping[str, str] = FILES,
    loopback: bool = True,
) -> Iterator[Running]:
    """A service over a knowledge base that holds ``documents``, each as ``kb/`` and its name.

    ``server`` are settings of that section; ``loopback`` False lets it act as if others could
    reach it.
    """
    chosen = load_settings(
        {
            "home": home,
            **(settings or {}),
            "server": {"port": 0, "rate_per_second": 0, "drain_seconds": 0, **(server or {})},
        }
    )
    with (
        listen(chosen.server) as listening,
        KnowledgeBase(settings=chosen, embedder=embedder or HashEmbedder()) as kb,
    ):
        for name, text in documents.items():
            kb.put(f"kb/{name}", text, source="kb", category=name.partition("/")[0])
        kb.access.refresh()
        service = Service(kb, loopback=loopback)
        started = threading.Event()
        server_ = Server(service, listening, started.set)
        thread = threading.Thread(target=server_.run_until_told)
        thread.start()
        url = address_of(listening)
        try:
            assert started.wait(120)
            with httpx.Client(base_url=url, timeout=30) as client:
                yield Running(url, kb, service, client)
        finally:
            server_.handle_exit(15, None)
            server_.should_exit = True
            thread.join(120)
            assert not thread.is_alive()


def until_ready(client: httpx.Client, seconds: float = 120) -> None:
    """Wait until /readyz says yes."""
    deadline = time.monotonic() + seconds
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read_all(connection: socket.socket) -> bytes:
    """Everything that comes until the other side closes, or resets what was not read."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


# -- as a process -------------------------------------------------------------------------------


@dataclass
class Process:
    """A service that runs as `knowport serve` does."""

    home: Path
    pid: int
    url: str
    stdout: Path
    stderr: Path

    def log(self) -> list[dict[str, Any]]:
        """The lines of its log; every one must be JSON."""
        return [json.loads(line) for line in self.stderr.read_text().splitlines()]

    def tell(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


class Serving:
    """Starts services, one at a time, each in a process that a test may kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def start(
        self,
        home: Path,
        *arguments: str,
        hash_embedder: bool = True,
        seconds_per_text: float = 0,
        **environment: str,
    ) -> Process:
        self._count += 1
        stdout, stderr = (self._folder / f"{name}-{self._count}" for name in ("out", "err"))
        pid = driver().start(
            do="cli",
            arguments=["serve", "--port=0", f"--home={home}", *arguments],
            environment=clean_environment(environment),
            folder=self._folder,
            stdout=stdout,
            stderr=stderr,
            **({"seconds_per_text": seconds_per_text} if hash_embedder else {}),
        )
        deadline = time.monotonic() + 120
        while not (said := re.search(r"Listening at (\S+)\n", text_of(stdout))):
            assert time.monotonic() < deadline, text_of(stderr)
            time.sleep(0.02)
        return Process(home, pid, said[1], stdout, stderr)


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""
