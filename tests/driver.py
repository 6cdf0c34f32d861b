"""Runs knowledge-base jobs and command lines in processes that a test may kill.

Importing Knowport takes longer than most tests, so each job is a fork of this process, which has
imported it and opened nothing. Reads one job (JSON) a line, writes events, one a line::

    started PID      the job's process is there, the leader of its own process group
    ready            the knowledge base is open, the work begins
    ended CODE       the process is gone; its exit code, or minus the signal that killed it

A job names what to ``do``:

``ingest``  ``home``, ``path``, ``source``: with the hash embedder
``delete``  ``home``, ``documents``: likewise
``rebuild`` ``home``, ``size`` of chunks, ``steps``: see ``rebuild_steps``
``cli``     ``arguments``, ``environment``, ``folder``, ``stdout``, ``stderr`` and maybe
            ``stdin`` (files or FIFOs): the command line; with ``seconds_per_text`` on a hash
            embedder that takes so long

With ``die_after`` the process kills itself as by SIGKILL when that call of an adapter
(``SqlLedger.begin_writes``) has returned.
"""

from __future__ import annotations

import contextlib
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

from pymilvus.client import grpc_handler
from typer.main import get_command

import knowport.adapters.ledger
import knowport.adapters.milvus
import knowport.entrypoints.mcp.command  # a command imports it when it is run
import knowport.entrypoints.upload
from knowport import KnowledgeBase
from knowport.bootstrap import composition
from knowport.entrypoints import cli
from knowport.errors import RebuildError, UnknownDocument
from knowport.model import Matrix
from knowport.pipelines import rebuild_fill
from knowport.settings import load_settings
from rebuilds import Hasty
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


def die_after(name: str, calls: int = 1) -> None:
    """Let the process end, as if killed, when the named method of an adapter has returned so many
    times."""
    owner_name, _, method = name.partition(".")
    owner = getattr(knowport.adapters.ledger, owner_name, None) or getattr(
        knowport.adapters.milvus, owner_name
    )
    original = getattr(owner, method)
    left = calls

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        result = original(*args, **kwargs)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, counted)


def rebuild_steps(job: dict[str, Any]) -> None:
    """``put ID FILE``, ``delete ID``, or a step of ``KnowledgeBase.rebuild`` with its arguments;
    ``die METHOD CALLS`` lets the process die after so many calls from then on. ``begin`` is a start
    after an abort; a ``run`` that is refused because of other settings begins anew, and a document
    that is gone stays so."""
    rebuild_fill.GROUP_DOCUMENTS = 2
    grpc_handler.time = Hasty()
    settings = load_settings({"home": job["home"], "chunking": {"size": job["size"]}})
    with KnowledgeBase(settings=settings, embedder=HashEmbedder()) as kb:
        say("ready")
        for name, *arguments in map(str.split, job["steps"]):
            if name == "die":
                die_after(arguments[0], int(arguments[1]))
            elif name == "put":
                kb.put(arguments[0], Path(arguments[1]).read_text("utf-8"))
            elif name == "delete":
                with contextlib.suppress(UnknownDocument):
                    kb.delete(*arguments)
            elif name == "begin":
                with contextlib.suppress(RebuildError):
                    kb.rebuild.abort()
                kb.rebuild.start()
            elif name == "run":
                try:
                    kb.rebuild.run(sample=5)
                except RebuildError:
                    kb.rebuild.abort()
                    kb.rebuild.run(sample=5)
            else:
                getattr(kb.rebuild, name)(*arguments)


def run(job: dict[str, Any]) -> None:
    if "die_after" in job:
        die_after(job["die_after"])
    if job["do"] == "cli":
        run_command_line(job)
        return
    if job["do"] == "rebuild":
        rebuild_steps(job)
        return
    with KnowledgeBase(job["home"], embedder=HashEmbedder()) as kb:
        say("ready")
        if job["do"] == "ingest":
            kb.ingest(job["path"], source=job["source"])
        else:
            for doc_id in job["documents"]:
                with contextlib.suppress(UnknownDocument):  # gone before the last kill
                    kb.delete(doc_id)


def run_command_line(job: dict[str, Any]) -> None:
    if "seconds_per_text" in job:
        slow = SlowEmbedder(job["seconds_per_text"])
        composition.configured_embedder = lambda _: slow
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    if "stdin" in job:
        os.dup2(os.open(job["stdin"], os.O_RDONLY), 0)
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
    dict(get_command(cli.app).commands)  # type: ignore[attr-defined]  # each loads its module
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
