"""Starts and stops the Milvus engines that tests run on.

==============  =========================================  =======================================
name            engine                                     what it is good for
==============  =========================================  =======================================
``lite``        Milvus Lite 2.5.1, embedded                the default of a new installation
``lite-server`` Milvus Lite 3.2.2, a server                hybrid search over TCP, aliases
``milvus-2.3``  Milvus 2.3.5, the real server              dense only; the server's own strictness
==============  =========================================  =======================================

The two servers cannot live in the environment of the tests (both Lites are called
``milvus_lite``), so each has its own, made once below ``.cache/engines`` or the folder named by
KNOWPORT_TEST_CACHE.

Every port is a free one. A server is started through a launcher that asks the kernel
(PR_SET_PDEATHSIG) to kill it when the test process goes away, because that holds even when pytest
is killed with SIGKILL, where no ``atexit`` and no fixture runs. The request survives ``exec`` and
both servers end up as the launched process itself, so there is no child that could be left over.
It is bound to the thread that starts the engine: start engines from the main thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pymilvus import MilvusClient
from pymilvus.exceptions import MilvusException

LEXICAL = ("lite", "lite-server")
# pymilvus keeps one connection to an address, with the options of whoever was first; by default it
# pings when nobody asks anything, which the server of Lite hangs up on.
QUIET = {"grpc.keepalive_permit_without_calls": False}
ALL = (*LEXICAL, "milvus-2.3")

REQUIREMENTS = {
    "lite-server": ["milvus-lite==3.2.2", "jieba==0.42.1", "pymilvus==3.0.2"],
    "milvus-2.3": ["milvus==2.3.5", "setuptools<82"],
}
START_SECONDS = 90

_LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):  # else the tests ended before the request was made
    os.execv(sys.argv[2], sys.argv[2:])
"""

# The package of Milvus 2.3.5 would start the server as a child and let two servers collide on
# the ports of their embedded etcd, which heed only a file of etcd's own.
_MILVUS_23 = """
import os, pathlib, socket, sys
import milvus
data = pathlib.Path(sys.argv[1])
proxy_port, health_port = (int(port) for port in sys.argv[2:])
server, held = milvus.default_server, []
def free_port():
    held.append(socket.create_server(("", 0)))
    return held[-1].getsockname()[1]
ports = {name: free_port() for name in server.config_keys if name.endswith("_port")}
client, peer = (f"http://127.0.0.1:{port}" for port in (ports["etcd_port"], free_port()))
for one in held:
    one.close()
server.config.update(**ports | {"proxy_port": proxy_port})
server.set_base_dir(str(data))
server.config.resolve()
milvus._initialize_data_files(str(data))
(data / "etcd.yaml").write_text(f'''
name: default
listen-client-urls: {client}
advertise-client-urls: {client}
listen-peer-urls: {peer}
initial-advertise-peer-urls: {peer}
initial-cluster: default={peer}
''')
os.chdir(data)
os.environ.update(
    DEPLOY_MODE="STANDALONE",
    ETCD_CONFIG_PATH=str(data / "etcd.yaml"),
    LD_LIBRARY_PATH=f"{data}/bin:" + os.environ.get("LD_LIBRARY_PATH", ""),
    METRICS_PORT=str(health_port),
    MILVUS_RUN_DIR=str(data / "run"),
)
os.execv(data / "bin/milvus", ["milvus", "run", "standalone"])
"""


@dataclass(frozen=True)
class Server:
    """A running server; ``health`` is a page that says OK once all its parts work."""

    uri: str
    process: subprocess.Popen[bytes]
    health: str = ""

    def kill(self) -> None:
        """Stop it at once and wait until it is gone."""
        self.process.kill()
        self.process.wait()


class Engines:
    """Engines of one test run, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[str, Server] = {}
        self._open = contextlib.ExitStack()

    def uri(self, name: str) -> str:
        """Where the engine of that name is reached; the embedded one is a file."""
        if name == "lite":
            return str(self._folder / "milvus.db")
        if name not in self._servers:
            data = self._folder / name
            self._servers[name] = self._open.enter_context(running(name, data))
        return self._servers[name].uri

    def stop(self) -> None:
        self._open.close()
        self._servers.clear()


@contextmanager
def running(name: str, data: Path) -> Iterator[Server]:
    """A server of its own over the folder ``data``; its output goes to ``data``.log."""
    python = environment(name) / "bin" / "python"
    port, health_port = free_port(), free_port()
    data.mkdir(parents=True, exist_ok=True)
    if name == "lite-server":
        program = [str(python.with_name("milvus-lite")), "server", "--data-dir", str(data)]
        program += ["--host", "127.0.0.1", "--port", str(port)]
    else:
        program = [str(python), "-c", _MILVUS_23, str(data), str(port), str(health_port)]
    log = data.with_name(data.name + ".log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, str(os.getpid()), *program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    health = f"http://127.0.0.1:{health_port}/healthz" if name == "milvus-2.3" else ""
    server = Server(f"http://127.0.0.1:{port}", process, health)
    try:
        _wait_until_ready(name, server, log)
        yield server
    finally:
        server.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


def _wait_until_ready(name: str, server: Server, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    address = ("127.0.0.1", int(server.uri.rpartition(":")[2]))
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(OSError, MilvusException):
            socket.create_connection(address, timeout=1).close()
            if server.health:
                with urllib.request.urlopen(server.health, timeout=5) as page:
                    if page.read() != b"OK":
                        continue
            client = MilvusClient(server.uri, timeout=5, grpc_options=QUIET)
            try:
                client.get_server_version(timeout=5)
                return
            finally:
                client.close()
        time.sleep(0.1)
    raise RuntimeError(
        f"{name} did not start; its last words:\n{log.read_text(errors='replace')[-2000:]}"
    )


def environment(name: str) -> Path:
    """The virtual environment of a server, made when it is missing, unfinished or outdated."""
    default = Path(__file__).parents[1] / ".cache" / "engines"
    cache = Path(os.environ.get("KNOWPORT_TEST_CACHE") or default).absolute()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / name
    stamp = folder / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS[name]) + "\n"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be making it
        finished = stamp.is_file() and stamp.read_text() == wanted
        if not (finished and (folder / "bin" / "python").exists()):
            shutil.rmtree(folder, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(folder))
            pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
            _run(*pip, "install", "--quiet", "--no-compile", *REQUIREMENTS[name])
            stamp.write_text(wanted)  # last, so that an interrupted one is made anew
    return folder


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
