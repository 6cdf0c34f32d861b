"""Which service runs over a home: it says so in a file there, for commands that find the embedded
index in use."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from knowport.errors import IndexInUse

FILE_NAME = "server.json"


@contextmanager
def announced(home: Path, url: str) -> Iterator[None]:
    """Say that a service of this process answers at ``url``; where the home cannot be written, it
    is not said."""
    file = home / FILE_NAME
    part = file.with_suffix(f".{os.getpid()}.part")
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({"pid": os.getpid(), "url": url}) + "\n", encoding="utf-8")
        part.replace(file)
    try:
        yield
    finally:
        with suppress(OSError):
            if _read(file).get("pid") == os.getpid():
                file.unlink()


def running_service(home: Path) -> str | None:
    """URL of the service that runs over ``home``, or None. One that was killed left its file, but
    is not there any more."""
    said = _read(home / FILE_NAME)
    pid, url = said.get("pid"), said.get("url")
    if not isinstance(pid, int) or not isinstance(url, str):
        return None
    return url if Path(f"/proc/{pid}").exists() else None


@contextmanager
def naming_service(home: Path) -> Iterator[None]:
    """Let IndexInUse name the service that has the index, where it is one."""
    try:
        yield
    except IndexInUse as error:
        url = running_service(home)
        if url is not None:
            error.remedy = (
                f"A service runs over it at {url}: ask that with --server {url}, or stop it first."
            )
        raise


def _read(file: Path) -> dict[str, object]:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
