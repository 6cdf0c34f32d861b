"""Runs knowledge-base jobs and command lines in processes that a test may kill.

Importing Knowport takes longer than most tests, so each job is a fork of this process, which has
imported it and opened nothing. Reads one job (JSON) a line, writes events, one a line::

    started PID      the job's process is there, the leader of its own process group
    ready            the knowledge base is open, the work begins
    ended CODE       the process is gone; its exit code, or minus the signal that killed it

A job names what to ``do``:

``ingest``  ``home``, ``path``, ``source``: with the hash embedder
``delete``  ``home``, ``documents``: likewise
``cli``     ``arguments``, ``environment``, ``folder``, ``stdout``, ``stderr`` (files): the command
            line; with ``seconds_per_text`` on a hash embedder that takes so long

With ``die_after`` the process kills itself as by SIGKILL when that call of an adapter
(``SqlLedger.begin_writes``) has returned.
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

sys.path.insert(0, str(Path(__file__).parent))

import knowport.adapters.ledger
import knowport.adapters.milvus
from knowport import KnowledgeBase
from knowport.bootstrap import composition
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
    if "die_after" in job:
        die_after(job["die_after"])
    if job["do"] == "cli":
        run_command_line(job)
        return
    with KnowledgeBase(job["home"], embedder=HashEmbedder()) as kb:
        say("ready")
        if job["do"] == "ingest":
            kb.ingest(job["path"], source=job["source"])
        else:
            for doc_id in job["documents"]:
                kb.delete(doc_id)


def run_command_line(job: dict[str, Any]) -> None:
    if "seconds_per_text" in job:
        slow = SlowEmbedder(job["seconds_per_text"])
        composition.configured_embedder = lambda _: slow
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.argv = ["knowport", *job["arguments"]]
    cli.main()


def exit_code(job: dict[str, Any]) -> int:
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
            code = exit_code(json.loads(line))
            sys.stdout.flush()
            os._exit(code)
        say(f"started {pid}")
        _, status = os.waitpid(pid, 0)
        say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
