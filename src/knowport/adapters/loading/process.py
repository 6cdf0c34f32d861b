"""The loader's end of the parser process."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from knowport.adapters.loading.frames import Header, pack, unpack
from knowport.adapters.loading.limits import LoadLimits, raised
from knowport.adapters.loading.parsers import Parsed
from knowport.errors import LoadError

# Plain packages in place of ours, because no parser needs what they import (the engine, numpy):
# the process starts in a tenth of the time and of the memory.
_START = """
import sys, types
for name in ("knowport", "knowport.adapters", "knowport.adapters.loading"):
    package = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + name.removeprefix("knowport").replace(".", "/")]
    sys.modules[name] = package
from knowport.adapters.loading.worker import main
main()
"""
_PACKAGE = Path(__file__).parents[2]
_MOST_READ = 1 << 20


class ParserProcess:
    """One parser process, started at its first job. Not thread-safe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def parse(self, parser: str, data: bytes, limits: LoadLimits) -> Parsed:
        """What the module ``parser`` makes of ``data``.

        Raises LoadError: what the parser says, ``too_slow``, or ``broken`` where it crashed.
        """
        done = False
        try:
            answer, text = self._ask(parser, data, limits)
            done = not answer["last"]
        finally:
            if not done:  # also when we are interrupted: its answer would be taken for the next one
                self.close()
        if "refusal" in answer:
            raise LoadError(**answer["refusal"])
        return Parsed(**{**answer["parsed"], "text": text.decode()})

    def close(self) -> None:
        """End the process, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close_pipes(process)

    def _ask(self, parser: str, data: bytes, limits: LoadLimits) -> tuple[Header, bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = _start()
        process = self._process
        assert process.stdin is not None
        try:
            for piece in pack({"parser": parser, "limits": asdict(limits)}, data):
                process.stdin.write(piece)
            process.stdin.flush()
            return unpack(_until(process, time.monotonic() + limits.seconds))
        except TimeoutError as error:
            raise LoadError(
                f"Parsing it takes more than {limits.seconds:g} seconds.",
                reason="too_slow",
                remedy=raised("seconds"),
            ) from error
        except (BrokenPipeError, EOFError) as error:
            raise LoadError(
                f"The parser crashed ({_ending(process)}).",
                reason="broken",
                remedy="Open it in its program and save it anew.",
            ) from error


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, str(_PACKAGE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in the terminal is for us alone
    )


def _until(process: subprocess.Popen[bytes], deadline: float) -> Callable[[int], bytes]:
    """Reads exactly so many bytes of the answer, or raises EOFError or TimeoutError."""
    stream = process.stdout
    assert stream is not None
    poll = select.poll()
    poll.register(stream, select.POLLIN)

    def read(size: int) -> bytes:
        parts = []
        while size:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1_000):
                raise TimeoutError
            part = stream.read1(min(size, _MOST_READ))  # type: ignore[attr-defined]
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    return read


def _ending(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:  # bytes that it did not take any more
                continue
