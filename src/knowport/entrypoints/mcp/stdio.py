"""The stdio transport: one client, JSON-RPC lines in UTF-8 on standard input and output.

The SDK's own transport is not used, because of what it cannot do. Its output is private only from
the moment it serves, ours before anything is loaded, so that nothing a library or a child process
prints can reach the client. Its read of standard input cannot be cancelled, so a signal would wait
for the client's next line. At the end of the input it drops requests that are not answered yet.
It has no limit on the length of a line, and gives no answer to one that is no JSON-RPC.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from knowport.entrypoints.mcp.lines import LineTooLong, lines

MAX_LINE_BYTES = 4 * 1024 * 1024
"""As the SDK limits the body of an HTTP request."""
MAX_ID_CHARS = 256
DRAIN_SECONDS = 30.0
"""How long answers are waited for after the client has closed its side, or a signal has come."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wire:
    """Private descriptors of what were standard input and output."""

    stdin: int
    stdout: int


@contextmanager
def private_wire() -> Iterator[Wire]:
    """Take standard input and output away from everybody else in this process.

    Within, descriptor 0 is empty and descriptor 1 is standard error, for children as well.
    """
    sys.stdout.flush()
    wire = Wire(os.dup(0), os.dup(1))  # children do not inherit these
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield wire
    finally:
        sys.stdout.flush()
        os.dup2(wire.stdin, 0)
        os.dup2(wire.stdout, 1)
        for descriptor in (nothing, wire.stdin, wire.stdout):
            os.close(descriptor)


async def serve(server: Server[Any], wire: Wire) -> None:
    """Serve the client until it closes its side, goes away, or SIGTERM or SIGINT comes."""
    unanswered = Unanswered()
    to_server, of_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, of_server = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = to_client.clone()
    reading = anyio.CancelScope()
    written = anyio.Event()

    async def stop_at_signal() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                reading.cancel()

    async def read() -> None:
        async with to_server, refusals:
            with reading:
                async for line in lines(wire.stdin, max_bytes=MAX_LINE_BYTES):
                    message = _message(line)
                    if isinstance(message, Refused):
                        await refusals.send(SessionMessage(message.answer))
                    elif message is not None:
                        unanswered.note(message)
                        await to_server.send(SessionMessage(message))
            with anyio.move_on_after(DRAIN_SECONDS):
                await unanswered.none_left()

    async def write() -> None:
        async with of_server:
            async for item in of_server:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await to_thread.run_sync(
                    _write_all, wire.stdout, text.encode() + b"\n", abandon_on_cancel=True
                )
                unanswered.note(item.message)
        written.set()

    try:
        async with anyio.create_task_group() as tasks:
            for task in (stop_at_signal, read, write):
                tasks.start_soon(task)
            await server.run(of_client, to_client, server.create_initialization_options())
            with anyio.move_on_after(DRAIN_SECONDS):
                await written.wait()
            tasks.cancel_scope.cancel()
    except* BrokenPipeError:
        log.info("the client went away")


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that is no message, and what the client gets for it."""

    answer: JSONRPCError


def _message(line: bytes | LineTooLong) -> JSONRPCMessage | Refused | None:
    """What a line says; None for a blank one."""
    if isinstance(line, LineTooLong):
        return _refused(INVALID_REQUEST, f"A line may have {MAX_LINE_BYTES} bytes at most.")
    if not line.strip():
        return None
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        if any(item["type"] == "json_invalid" for item in error.errors(include_input=False)):
            return _refused(PARSE_ERROR, "The line is not JSON in UTF-8.")
        return _refused(INVALID_REQUEST, "The line is not a JSON-RPC 2.0 message.")
    if isinstance(message, JSONRPCRequest) and len(str(message.id)) > MAX_ID_CHARS:
        return _refused(INVALID_REQUEST, f"An id may have {MAX_ID_CHARS} characters at most.")
    return message


def _refused(code: int, message: str) -> Refused:
    return Refused(
        JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))
    )


class Unanswered:
    """The requests that wait for an answer. A cancelled one waits for none."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._settled = anyio.Event()

    def note(self, message: JSONRPCMessage) -> None:
        """Take note of a message that came in or went out."""
        match message:
            case JSONRPCRequest():
                self._ids.add(str(message.id))
            case JSONRPCNotification(method="notifications/cancelled"):
                self._ids.discard(str((message.params or {}).get("requestId")))
            case JSONRPCNotification():
                pass
            case _:
                self._ids.discard(str(message.id))
        if not self._ids:
            self._settled.set()
            self._settled = anyio.Event()

    async def none_left(self) -> None:
        while self._ids:
            await self._settled.wait()
