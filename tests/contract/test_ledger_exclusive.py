"""One writer at a time, among threads and processes, and freed by the end of its process."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from knowport.adapters.ledger import SqlLedger
from knowport.errors import LedgerBusy, LedgerError, RebuildError

from .ledgers import GENERATION, failure

# Says `held` when it holds the ledger, and lets go when its input ends.
_HOLDER = """
import sys
from knowport.adapters.ledger import SqlLedger
with getattr(SqlLedger(sys.argv[1]), sys.argv[2])():
    print("held", flush=True)
    sys.stdin.read()
"""
# Adds one to a number in a file so many times; without a lock numbers would get lost.
_COUNTER = """
import sys
from pathlib import Path
from knowport.adapters.ledger import SqlLedger
ledger, file = SqlLedger(sys.argv[1]), Path(sys.argv[2])
for _ in range(50):
    with ledger.exclusive():
        file.write_text(str(int(file.read_text()) + 1))
"""


@contextmanager
def holder(url, lock="exclusive"):
    """A process that holds the ledger."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, url, lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.fixture
def hurried(url):
    """A ledger that waits for a fifth of a second."""
    ledger = SqlLedger(url, exclusive_seconds=0.2)
    yield ledger
    ledger.close()


def hold(ledger):
    with ledger.exclusive():
        return True


def hold_soon(ledger):
    """A server takes a moment to notice that a process is gone."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return hold(ledger)
        except LedgerBusy:
            assert time.monotonic() < deadline


def test_it_is_held_and_let_go(opened, hurried):
    with opened().exclusive():
        started = time.monotonic()
        with pytest.raises(LedgerBusy, match=r"held for writing by another thread") as error:
            hold(hurried)
        assert time.monotonic() - started >= 0.2
        assert str(os.getpid()) in error.value.message
        assert error.value.transient
        assert error.value.remedy

    assert hold(hurried)
    assert hold(hurried)


def test_it_is_let_go_by_an_error(opened, hurried):
    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error), opened().exclusive():
            raise error
        assert hold(hurried)


def test_the_ledger_can_be_written_and_read_meanwhile(opened):
    ledger, other = opened(), opened()

    with ledger.exclusive():
        ledger.save_generation(GENERATION)
        assert other.active_generation() == GENERATION
        other.store_catalogue("a", "b", kb_scope="s")


def test_threads_take_turns_in_order_of_their_coming(opened):
    ledgers = [opened(), opened()]
    order, inside = [], []

    def work(number):
        with ledgers[number % 2].exclusive():
            inside.append(number)
            assert inside == [number]
            time.sleep(0.001)
            order.append(number)
            inside.clear()

    with ThreadPoolExecutor(20) as pool:
        with ledgers[0].exclusive():
            waiting = []
            for number in range(20):
                waiting.append(pool.submit(work, number))
                time.sleep(0.01)
        for future in waiting:
            future.result()

    assert order == list(range(20))


def test_many_waiting_threads_leave_connections_for_the_one_that_writes(opened):
    ledger = opened()

    def work(number):
        with ledger.exclusive():
            ledger.store_catalogue(f"c{number:02}", "", kb_scope="s")
            return len(ledger.catalogues()["s"])

    with ThreadPoolExecutor(40) as pool:
        assert sorted(pool.map(work, range(40))) == list(range(1, 41))


def test_processes_exclude_each_other(url, opened, tmp_path):
    file = tmp_path / "number"
    file.write_text("0")
    opened()  # makes the tables

    command = [sys.executable, "-c", _COUNTER, url, str(file)]
    workers = [subprocess.Popen(command) for _ in range(2)]

    assert [worker.wait() for worker in workers] == [0, 0]
    assert file.read_text() == "100"


def test_another_process_is_waited_for_and_named(url, opened, hurried):
    with holder(url) as process:
        with pytest.raises(LedgerBusy) as error:
            hold(hurried)
        named = f"process {process.pid}" if url.startswith("sqlite") else "session "
        assert f"is held for writing by {named}" in error.value.message

        threading.Timer(0.3, process.stdin.close).start()
        assert hold(opened())

    assert process.returncode == 0


def test_a_killed_process_holds_nothing(url, hurried):
    with holder(url) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()

        assert hold_soon(hurried)

    assert process.returncode == -signal.SIGKILL


# Holds the ledger and is killed; its fork, made meanwhile, lives on and tells what it could hold.
_FORKING = """
import os, signal, sys
from knowport.adapters.ledger import SqlLedger
from knowport.errors import LedgerBusy
def hold(ledger):
    try:
        with ledger.exclusive():
            return "held"
    except LedgerBusy:
        return "busy"
ledger = SqlLedger(sys.argv[1], exclusive_seconds=0.3)
with ledger.exclusive():
    parent = os.getpid()
    if os.fork() == 0:
        print(os.getpid(), hold(ledger), flush=True)
        os.kill(parent, signal.SIGKILL)
        sys.stdin.readline()
        print(hold(ledger), flush=True)
        sys.stdin.read()
        os._exit(0)
    signal.pause()
"""


def test_a_fork_of_the_holder_does_not_hold_and_can_hold(url, hurried):
    process = subprocess.Popen(
        [sys.executable, "-c", _FORKING, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        child, found = process.stdout.readline().split()
        assert found == "busy"
        assert process.wait() == -signal.SIGKILL
        os.kill(int(child), 0)  # it lives

        assert hold_soon(hurried)

        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "held\n"


def test_a_lost_session_is_an_error_and_lets_go(server, postgres_url):
    ledger = SqlLedger(postgres_url, exclusive_seconds=0.2)

    with pytest.raises(LedgerError, match="terminat"), ledger.exclusive():
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )

    assert hold(ledger)
    ledger.close()


def test_an_interrupt_while_waiting_leaves_no_trace(url, opened, hurried):
    """Ctrl-C to a process that waits for its turn."""
    script = """
import sys
from knowport.adapters.ledger import SqlLedger
ledger = SqlLedger(sys.argv[1])
print("waiting", flush=True)
try:
    with ledger.exclusive():
        print("held")
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.read()
"""
    with opened().exclusive():
        process = subprocess.Popen(
            [sys.executable, "-c", script, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"

    with process:
        assert hold(hurried)  # though that process lives on


def test_a_file_that_cannot_be_locked_is_an_error(sqlite_url, tmp_path):
    ledger = SqlLedger(sqlite_url)
    (tmp_path / "home" / "ledger.sqlite3.lock").mkdir()

    message, _ = failure(hold, ledger)

    assert "cannot be locked for writing" in message
    ledger.close()


def rebuild(ledger):
    with ledger.rebuilding():
        return True


def test_one_rebuild_at_a_time_beside_writers(url, opened, hurried):
    """Of another process or host, of another thread, of the same one: refused at once, and said by
    whom. Writing has a lock of its own."""
    with holder(url, "rebuilding") as process:
        with pytest.raises(RebuildError, match="Another rebuild command is at work") as error:
            rebuild(hurried)
        who = f"process {process.pid}" if url.startswith("sqlite") else "session "
        assert f"is held for a rebuild by {who}" in error.value.message
        assert "knowport rebuild status" in error.value.remedy
        assert hold(hurried)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 120
        while True:
            try:
                assert rebuild(hurried)
                break
            except RebuildError:
                assert time.monotonic() < deadline
    with opened().rebuilding():
        with pytest.raises(RebuildError, match="by another thread of this process"):
            rebuild(hurried)
        assert hold(hurried)
    assert rebuild(hurried)


def test_what_a_rebuild_raises_is_not_taken_for_another_rebuild(hurried):
    busy = LedgerBusy("The ledger is held for writing.")
    with pytest.raises(LedgerBusy) as error, hurried.rebuilding():
        raise busy
    assert error.value is busy
