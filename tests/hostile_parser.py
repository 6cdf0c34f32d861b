"""A parser that does what a file should not make a parser do; the data says what."""

from __future__ import annotations

import os
import signal
import sys
import time

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers import Parsed

_KEPT: list[bytes] = []


def parse(data: bytes, limits: LoadLimits) -> Parsed:
    match data:
        case b"hang":
            time.sleep(60)
        case b"spin":
            while True:
                pass
        case b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"exit":
            os._exit(3)
        case b"eat":
            _KEPT.append(b"\1" * (limits.memory_bytes + 1))
        case b"keep":
            _KEPT.append(b"\1" * 250_000_000)
        case b"print":
            sys.stdout.write("noise")
            sys.stdout.flush()
            os.write(1, b"noise")
            os.write(2, b"noise")
        case b"recurse":
            return parse(data, limits)
        case b"raise":
            raise ZeroDivisionError("by zero")
    return Parsed(data.decode("utf-8", "replace"), "hostile", metadata={"pid": os.getpid()})
