"""The parser process: whatever a file does to a parser, the loader gets a reason in time."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.process import ParserProcess
from knowport.errors import LoadError

TESTS = Path(__file__).parents[1]
HOSTILE = "hostile_parser"


@pytest.fixture(autouse=True)
def _tests_importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


@pytest.fixture
def process():
    process = ParserProcess()
    yield process
    process.close()


def parse(process, data, **limits):
    return process.parse(HOSTILE, data, LoadLimits(**limits))


def refused(process, data, **limits):
    with pytest.raises(LoadError) as error:
        parse(process, data, **limits)
    return error.value


def pid_of(process):
    return parse(process, b"").metadata["pid"]


def gone(pid, within=5.0):
    """Whether all threads of the process end in that time. A zombie has ended."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            [thread] = Path(f"/proc/{pid}/task").iterdir()
            state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        except ValueError:  # several threads
            continue
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_one_process_does_job_after_job(process):
    first = parse(process, "备份 🚀".encode())
    second = parse(process, b"\x00" * 3_000_000)

    assert (first.text, first.kind) == ("备份 🚀", "hostile")
    assert second.text == "\0" * 3_000_000
    assert first.metadata == second.metadata != {"pid": os.getpid()}


def test_it_loads_neither_the_engine_nor_numpy(process):
    pid = pid_of(process)

    maps = Path(f"/proc/{pid}/maps").read_text()

    assert "numpy" not in maps
    assert "milvus" not in maps


@pytest.mark.parametrize("job", [b"hang", b"spin"])
def test_a_job_that_takes_too_long_is_killed(process, job):
    pid = pid_of(process)

    error = refused(process, job, seconds=0.3)

    assert (error.reason, error.message) == ("too_slow", "Parsing it takes more than 0.3 seconds.")
    assert gone(pid)
    assert pid_of(process) != pid


@pytest.mark.parametrize(("job", "how"), [(b"crash", "SIGSEGV"), (b"exit", "exit code 3")])
def test_a_crash_is_the_file_s_fault_and_the_next_file_is_parsed(process, job, how):
    error = refused(process, job)

    assert (error.reason, error.message) == ("broken", f"The parser crashed ({how}).")
    assert parse(process, b"next").text == "next"


def test_a_job_that_takes_too_much_memory_is_refused(process):
    pid = pid_of(process)

    error = refused(process, b"eat", memory_bytes=400_000_000)

    assert error.reason == "too_large"
    assert error.message == "Parsing it takes more than 400000000 bytes of memory."
    assert gone(pid)
    assert parse(process, b"next").text == "next"


def test_a_process_that_has_grown_is_replaced(process):
    pid = pid_of(process)

    assert parse(process, b"keep").text == "keep"
    assert gone(pid)


@pytest.mark.parametrize("job", [b"raise", b"recurse"])
def test_what_a_parser_raises_means_that_the_file_is_broken(process, job):
    pid = pid_of(process)

    error = refused(process, job)

    assert error.reason == "broken"
    assert error.message.startswith("The file cannot be parsed: ")
    assert pid_of(process) == pid


def test_what_a_library_prints_reaches_nobody(process, capfd):
    assert parse(process, b"print").text == "print"
    assert parse(process, b"next").text == "next"
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_in_the_terminal_does_not_reach_it(process):
    pid = pid_of(process)

    assert os.getsid(pid) != os.getsid(0)
    os.kill(pid, signal.SIGINT)

    assert pid_of(process) == pid


def test_an_interrupted_job_does_not_answer_the_next_one(process):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            parse(process, b"hang")
    finally:
        signal.signal(signal.SIGALRM, before)

    assert parse(process, b"next").text == "next"


def test_a_process_that_was_killed_while_idle_is_started_anew(process):
    pid = pid_of(process)
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)

    assert parse(process, b"next").text == "next"


def test_closing_ends_it_and_may_be_done_twice(process):
    pid = pid_of(process)

    process.close()
    process.close()

    assert gone(pid)


@pytest.mark.parametrize("job", [b"hang", b"spin"])
def test_it_ends_with_the_loader_even_in_the_middle_of_a_job(job):
    script = f"""
        import threading, time
        from knowport.adapters.loading.limits import LoadLimits
        from knowport.adapters.loading.process import ParserProcess
        process = ParserProcess()
        print(process.parse("hostile_parser", b"", LoadLimits()).metadata["pid"], flush=True)
        process.parse("hostile_parser", {job!r}, LoadLimits(seconds=50))
    """
    loader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    assert loader.stdout
    pid = int(loader.stdout.readline())
    time.sleep(0.1)  # let the second job begin
    loader.kill()
    loader.wait()
    loader.stdout.close()

    assert gone(pid)


def test_it_does_not_read_modules_from_the_current_folder(process, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)

    assert parse(process, b"next").text == "next"
