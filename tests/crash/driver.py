"""Runs knowledge-base jobs in processes that a test may kill.

Started once by a test; importing Knowport takes seconds, so each job is a fork of this process.
Reads one job (JSON) a line, writes events, one a line::

    started PID      the job's process is there, the leader of its own process group
    ready            the knowledge base is open, the work begins
    ended CODE       the process is gone; its exit code, or minus the signal that killed it

A job is ``{"do": "ingest" | "delete" | "cli", "home": ..., ...}``. With ``die_after`` the process
kills itself as by SIGKILL right after that call (``SqlLedger.begin_write``) has returned.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import knowport.adapters.ledger
import knowport.adapters.milvus
from knowport import KnowledgeBase, bootstrap
from knowport.entrypoints import cli
from knowport.model import Matrix
from support import HashEmbedder


class SlowEmbedder(HashEmbedder):
    """Takes its time for each text."""

    def __init__(self, seconds: float) -> None:
        super().__init__(batch_size=1)
        self._seconds = seconds

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        time.sleep(self._seconds * len(texts))
        return super().embed_documents(texts)


def say(event: str) -> None:
    os.write(1, f"{event}\n".encode())


def die_after(name: str) -> None:
    """Let the process end, as if killed, when the named method of an adapter has returned."""
    owner_name, _, method = name.partition(".")
    owner = getattr(knowport.adapters.ledger, owner_name, None) or getattr(
        knowport.adapters.milvus, owner_name
    )
    original = getattr(owner, method)

    def once(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, method, once)


def run(job: dict[str, Any]) -> None:
    embedder = SlowEmbedder(job.get("seconds_per_text", 0))
    if "die_after" in job:
        die_after(job["die_after"])
    if job["do"] == "cli":
        bootstrap._embedder = lambda _: embedder
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["knowport", *job["arguments"]]
        cli.main()
        return
    with KnowledgeBase(job["home"], embedder=embedder) as kb:
        say("ready")
        if job["do"] == "ingest":
            kb.ingest(job["path"], source=job["source"])
        else:
            for doc_id in job["documents"]:
                kb.delete(doc_id)


def child(job: dict[str, Any]) -> int:
    os.setpgid(0, 0)
    try:
        run(job)
    except SystemExit as stop:
        return int(stop.code or 0)
    except BaseException:  # noqa: BLE001  # this process must end here, whatever it was
        traceback.print_exc()
        return 99
    return 0


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = child(json.loads(line))
            sys.stdout.flush()
            os._exit(code)
        say(f"started {pid}")
        _, status = os.waitpid(pid, 0)
        say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
