"""How far work that goes step by step has come, for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from knowport.entrypoints.options import err

_LINE_SECONDS = 5.0  # between lines of progress where there is no terminal
_SAID_SECONDS = 1.0  # a rate is not said before


class Step(Protocol):
    """``total`` is 0 where it is not known yet."""

    @property
    def step(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...


S = TypeVar("S", bound=Step)


@contextmanager
def step_progress(
    *, quiet: bool, what: Callable[[S], str] = lambda now: now.step
) -> Iterator[Callable[[S], None]]:
    """A bar with rate and time left on a terminal; elsewhere a line now and then; nothing if
    ``quiet``. ``what`` says what is being done."""
    if quiet:
        yield lambda _: None
        return
    if not err.is_terminal:
        yield _lines(what)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
    pace = _Pace()
    with bar:
        task = bar.add_task("", total=None, rate="")

        def show(now: S) -> None:
            if pace.is_new(now):
                bar.reset(task, description=now.step)
            bar.update(
                task,
                completed=now.done,
                total=now.total or None,
                description=what(now),
                rate=pace.rate(now),
            )

        yield show


def _lines(what: Callable[[S], str]) -> Callable[[S], None]:
    said = time.monotonic()
    pace = _Pace()

    def show(now: S) -> None:
        nonlocal said
        pace.is_new(now)
        if now.total and time.monotonic() - said > _LINE_SECONDS:
            said = time.monotonic()
            place = f"{now.done} of {now.total}"
            said_of_it = filter(None, [place, pace.rate(now), pace.left(now)])
            err.print(f"{what(now)}: {', '.join(said_of_it)}", markup=False)

    return show


class _Pace:
    """How fast the step at hand is."""

    def __init__(self) -> None:
        self._step, self._began = "", 0.0

    def is_new(self, now: Step) -> bool:
        if now.step == self._step:
            return False
        self._step, self._began = now.step, time.monotonic()
        return True

    def rate(self, now: Step) -> str:
        seconds = time.monotonic() - self._began
        return f"{now.done / seconds:.0f}/s" if seconds > _SAID_SECONDS else ""

    def left(self, now: Step) -> str:
        seconds = time.monotonic() - self._began
        if seconds <= _SAID_SECONDS or not 0 < now.done <= now.total:
            return ""
        return f"about {seconds * (now.total - now.done) / now.done:.0f} s left"
