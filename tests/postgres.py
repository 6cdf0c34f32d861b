"""Starts and stops a PostgreSQL server for tests, in a folder of its own on a free port.

The server programs come from the system's package (Debian: ``apt-get install postgresql``), and
none that is already running is used. The server refuses to run as root, so root starts it as the
user ``postgres``, else ``nobody``. As with the engines, the kernel ends it together with the
tests: here with SIGQUIT, on which it also ends its children.

Where the package has ICU the databases sort text as a dictionary does, which tells whether
Knowport depends on the order of a database.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from engines import free_port

PASSWORD = "postgres-sentinel"
START_SECONDS = 60

# The user is changed in here because it need not be able to read this Python, and first because
# the kernel forgets the request when the user changes.
_LAUNCHER = """
import ctypes, os, signal, sys
parent, user, group = map(int, sys.argv[1:4])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # 1 is PR_SET_PDEATHSIG
if os.getppid() == parent:  # else the tests ended before the request was made
    os.execv(sys.argv[4], sys.argv[4:])
"""


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    port: int

    def url(self, database: str = "postgres", *, password: str = PASSWORD) -> str:
        return f"postgresql+psycopg://postgres:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str) -> None:
        """Run a statement outside of any transaction."""
        url = self.url().replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            connection.execute(statement.encode())


def programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``, of the newest version; None if not installed."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: int(folder.parent.name) if folder.parent.name.isdigit() else 0,
        reverse=True,
    )
    if pg_config := shutil.which("pg_config"):
        told = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        folders.append(Path(told.stdout.strip()))
    if initdb := shutil.which("initdb"):
        folders.append(Path(initdb).resolve().parent)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


@contextmanager
def running(folder: Path) -> Iterator[Postgres]:
    """A server of the programs in ``folder``; its data is deleted afterwards."""
    # Not below pytest's folder: only the user of the tests may enter that, and a socket's path
    # has to be short.
    home = Path(tempfile.mkdtemp(prefix="knowport-pg-", dir="/tmp"))
    user = _user()
    try:
        os.chown(home, user.pw_uid, user.pw_gid)
        _create(folder, home, user)
        port = free_port()
        with (home / "log").open("ab") as log:
            options = {
                "listen_addresses": "127.0.0.1",
                "port": str(port),
                "unix_socket_directories": str(home),
                "fsync": "off",
                "dynamic_shared_memory_type": "mmap",  # it lies in the data folder
            }
            settings = [word for pair in options.items() for word in ("-c", "=".join(pair))]
            launch = [sys.executable, "-c", _LAUNCHER]
            launch += [str(number) for number in (os.getpid(), user.pw_uid, user.pw_gid)]
            process = subprocess.Popen(
                [*launch, str(folder / "postgres"), "-D", str(home / "data"), *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        try:
            server = Postgres(port)
            _wait_until_ready(server, process, home / "log")
            yield server
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _user() -> pwd.struct_passwd:
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _create(folder: Path, home: Path, user: pwd.struct_passwd) -> None:
    password = home / "password"
    password.write_text(PASSWORD)
    os.chown(password, user.pw_uid, user.pw_gid)
    command = [str(folder / "initdb"), "-D", str(home / "data"), "--no-sync", "-U", "postgres"]
    command += ["--auth=scram-sha-256", f"--pwfile={password}"]
    command += ["--encoding=UTF8", "--locale=C"]
    dictionary = ["--locale-provider=icu", "--icu-locale=en"]
    for extra in (dictionary, []):  # ICU came with version 15, and not every build has it
        made = subprocess.run(
            command + extra,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[] if os.geteuid() == 0 else None,
        )
        if made.returncode == 0:
            return
    raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")


def _wait_until_ready(server: Postgres, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            server.execute("SELECT 1")
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text(errors='replace')[-2000:]}")
