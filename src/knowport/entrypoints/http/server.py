"""The service as a process: where it listens, who may reach it, and how it ends."""

from __future__ import annotations

import importlib
import ipaddress
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType

import uvicorn

from knowport.entrypoints.http.app import create_app
from knowport.entrypoints.http.protocol import bounded_protocol
from knowport.entrypoints.http.service import Service
from knowport.entrypoints.running import announced
from knowport.errors import ConfigurationError, EngineUnavailable
from knowport.knowledge_base import KnowledgeBase
from knowport.settings.server import ServerSettings

BACKLOG = 2_048
_TICKS = 10  # of a tenth of a second, between two looks whether the engine lives


def listen(settings: ServerSettings) -> socket.socket:
    """A socket that listens at the configured address.

    Raises ConfigurationError for a name that is none and for a port that is taken.
    """
    where = f"{settings.host}:{settings.port}"
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        # asyncio does this only for sockets that name their protocol. A reply goes out in two
        # parts, and without it the second waits 40 ms for the first to be acknowledged.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen at {where}: {error.strerror or error}.",
            remedy="Set server.host and server.port (or --host and --port) to a free address.",
        ) from error


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can reach the socket."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def refuse_open_network(kb: KnowledgeBase, listening: socket.socket) -> None:
    """Raises ConfigurationError where others could reach a service that has no usable key."""
    kb.access.refresh()
    if is_loopback(listening) or kb.access.usable():
        return
    raise ConfigurationError(
        f"Without access keys the service listens on loopback only, and {address_of(listening)} "
        "can be reached from elsewhere.",
        remedy="Make a key first: knowport keys create --scope "
        f"{kb.settings.retrieval.kb_scope} --role reader; or listen at 127.0.0.1.",
    )


def refuse_workers(environment: Mapping[str, str]) -> None:
    """Raises ConfigurationError where several processes are asked for: jobs and limits belong to
    one, and so does the embedded engine."""
    asked = environment.get("WEB_CONCURRENCY", "")
    if asked not in {"", "1"}:
        raise ConfigurationError(
            f"WEB_CONCURRENCY asks for {asked} workers; a service is one process.",
            remedy="Unset it. For more, run several services over one Milvus server (milvus.uri) "
            "and one PostgreSQL (ledger.url).",
        )


def address_of(listening: socket.socket) -> str:
    """The URL of a socket that listens."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn that goes on for a moment when it is told to end.

    Meanwhile each reply tells its client to connect anew, /readyz says no, and new requests are
    still answered: so nobody who asks during a restart is left without a reply. A second signal
    ends the moment.
    """

    def __init__(
        self, service: Service, listening: socket.socket, on_started: Callable[[], None]
    ) -> None:
        settings = service.settings
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=bounded_protocol(settings),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=settings.keep_alive,  # type: ignore[arg-type]  # any number
                timeout_graceful_shutdown=settings.shutdown_timeout,  # type: ignore[arg-type]
                h11_max_incomplete_event_size=settings.max_header_bytes,
            )
        )
        self._service = service
        self._listening = listening
        self._on_started = on_started
        self._end_at: float | None = None

    def run_until_told(self) -> None:
        """Serve until SIGTERM or SIGINT, and answer what was asked until then.

        Raises EngineUnavailable where the embedded engine ends before: no lookup would ever work
        again, and whatever started the service can start it anew.
        """
        self.run(sockets=[self._listening])
        # A signal to the whole process group reaches the engine as well.
        if self._end_at is None and self._service.kb.engine_ended:
            raise EngineUnavailable(
                "The embedded engine has ended by itself, or was killed; often memory was full.",
                remedy="Start the service again. What was indexed is still there.",
            )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del frame
        if self._end_at is None:
            self._end_at = time.monotonic() + self._service.settings.drain_seconds
            self._service.drain_soon()
        elif self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        else:
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        told = self._end_at is not None and time.monotonic() >= self._end_at
        if told or (counter % _TICKS == 0 and self._service.kb.engine_ended):
            self.should_exit = True
        return await super().on_tick(counter)


def _load_ahead() -> None:
    """Load what would be loaded by the first request, while everybody else waits for it: the
    engine's client takes SciPy in at the first search, where it is installed."""
    with suppress(ModuleNotFoundError):
        importlib.import_module("scipy.sparse")


def serve(kb: KnowledgeBase, listening: socket.socket, on_started: Callable[[str], None]) -> None:
    """Run the service over an open knowledge base until it is told to end.

    ``on_started`` is told the URL. Raises ConfigurationError, and EngineUnavailable where the
    embedded engine ends.
    """
    refuse_workers(os.environ)
    _load_ahead()
    refuse_open_network(kb, listening)
    url = address_of(listening)
    with announced(kb.settings.home, url):
        service = Service(kb, loopback=is_loopback(listening))
        Server(service, listening, lambda: on_started(url)).run_until_told()
