"""What connects stages that work side by side, each in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Closed(Exception):
    """The other end of a channel is gone; nothing that is put into it would be taken."""


class Channel(Generic[T]):
    """A queue of up to ``capacity`` items between two threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._ended = self._closed = False

    def put(self, item: T) -> None:
        """Wait for room, and put. Raises Closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._capacity)
            if self._closed:
                raise Closed
            self._items.append(item)
            self._changed.notify_all()

    def take(self, at_least: int = 1, timeout: float | None = None) -> list[T] | None:
        """All items that are there, when there are ``at_least`` so many, or at the end, or after
        ``timeout`` seconds. None where there are none although it is not the end; no items at the
        end."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) >= at_least or self._ended, timeout)
            if not self._items and not self._ended:
                return None
            items = list(self._items)
            self._items.clear()
            self._changed.notify_all()
            return items

    def end(self) -> None:
        """Nothing more will be put."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more will be taken."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def pause(self, seconds: float) -> None:
        """Sleep, but not beyond the closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)


class Room:
    """Room for so much at once, in whatever it is counted. What is larger has it for itself."""

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._changed = threading.Condition()
        self._closed = False

    def take(self, amount: int) -> None:
        """Wait until there is room. Raises Closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or not self._used or self._used + amount <= self._size
            )
            if self._closed:
                raise Closed
            self._used += amount

    def take_more(self, amount: int) -> None:
        """For whoever has some already: it never waits."""
        with self._changed:
            self._used += amount

    def give_back(self, amount: int) -> None:
        with self._changed:
            self._used -= amount
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
