"""The parser process: parses what could hang, crash or eat memory, and is killed if it does.

It reads a job from its standard input, answers on its standard output, and waits for the next. It
opens no files of its own accord, and ends when the loader does.
"""

from __future__ import annotations

import importlib
import os
import resource
import select
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from knowport.adapters.loading.frames import Header, pack, unpack
from knowport.adapters.loading.limits import LoadLimits, raised
from knowport.adapters.loading.parsers import Parsed
from knowport.errors import LoadError

# A process that stays larger than this is replaced: what a large file took is not given back.
_MUCH_MEMORY = 200_000_000
_CPU_MARGIN = 5  # seconds; for a job whose loader is gone


def main() -> None:
    """Answer jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loader decides when this ends
    jobs, answers = _take_over_standard_streams()
    threading.Thread(target=_end_with_loader, args=(jobs.fileno(),), daemon=True).start()
    while True:
        try:
            header, data = unpack(_exactly(jobs))
        except EOFError:
            return
        answer, text = _answer(header, data)
        answer["last"] = answer.get("last") or _memory() > _MUCH_MEMORY
        for piece in pack(answer, text):
            answers.write(piece)
        answers.flush()


def _answer(header: Header, data: bytes) -> tuple[Header, bytes]:
    limits = LoadLimits(**header["limits"])
    _bound(limits)
    try:
        parsed = _parse(header["parser"], data, limits)
        return {"parsed": {**asdict(parsed), "text": ""}}, parsed.text.encode("utf-8", "ignore")
    except LoadError as error:
        refusal = {"message": error.message, "reason": error.reason, "remedy": error.remedy}
    except MemoryError:
        return {"refusal": _out_of_memory(limits), "last": True}, b""
    # Parsers raise whatever they stumble over, and RecursionError where a file nests too deeply.
    except Exception as error:  # noqa: BLE001
        refusal = {
            "message": f"The file cannot be parsed: {type(error).__name__}: {error}"[:500],
            "reason": "broken",
            "remedy": "Open it in its program and save it anew.",
        }
    return {"refusal": refusal}, b""


def _parse(parser: str, data: bytes, limits: LoadLimits) -> Parsed:
    parse: Callable[[bytes, LoadLimits], Parsed] = importlib.import_module(parser).parse
    return parse(data, limits)


def _bound(limits: LoadLimits) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + limits.seconds) + _CPU_MARGIN
    _set_limit(resource.RLIMIT_AS, limits.memory_bytes)
    _set_limit(resource.RLIMIT_CPU, cpu)
    _set_limit(resource.RLIMIT_CORE, 0)


def _set_limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _out_of_memory(limits: LoadLimits) -> dict[str, str]:
    return {
        "message": f"Parsing it takes more than {limits.memory_bytes} bytes of memory.",
        "reason": "too_large",
        "remedy": raised("memory_bytes"),
    }


def _take_over_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes; what a library prints goes nowhere."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    return jobs, answers


def _end_with_loader(jobs: int) -> None:
    poll = select.poll()
    poll.register(jobs, 0)  # wakes up only when the other end is closed
    poll.poll()
    os._exit(0)


def _exactly(stream: BinaryIO) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        data = stream.read(size)
        if len(data) < size:
            raise EOFError
        return data

    return read


def _memory() -> int:
    """Bytes of memory in use. The peak that getrusage tells begins with the loader's own."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()
