"""A running service inside the test's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from knowport import KnowledgeBase
from knowport.entrypoints.http.server import Server, address_of, listen
from knowport.entrypoints.http.service import Service
from knowport.settings.server import ServerSettings


@dataclass(frozen=True, slots=True)
class Running:
    url: str
    service: Service


@contextmanager
def running(kb: KnowledgeBase, *, loopback: bool = True) -> Iterator[Running]:
    """Serve a knowledge base on a free port of loopback, in a thread."""
    kb.access.refresh()
    started = threading.Event()
    made: list[tuple[Server, Service]] = []
    with listen(ServerSettings(port=0)) as listening:

        def serve() -> None:
            service = Service(kb, loopback=loopback)
            server = Server(service, listening, started.set)
            made.append((server, service))
            server.run_until_told()

        thread = threading.Thread(target=serve, name="service")
        thread.start()
        try:
            assert started.wait(30)
            server, service = made[0]
            yield Running(address_of(listening), service)
        finally:
            made[0][0].should_exit = True
            thread.join(30)
