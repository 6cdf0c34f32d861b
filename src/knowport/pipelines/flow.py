"""What connects stages that work side by side, each in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Closed(Exception):
    """The other end of a channel is gone; nothing that is put into it would be taken."""


class Channel(Generic[T]):
    """A queue between two threads that holds items up to a weight, and one item at least."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._weight = capacity, 0
        self._items: deque[tuple[T, int]] = deque()
        self._changed = threading.Condition()
        self._ended = self._closed = False

    def put(self, item: T, weight: int = 1) -> None:
        """Wait for room, and put. Raises Closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or not self._items or self._weight + weight <= self._capacity
            )
            if self._closed:
                raise Closed
            self._items.append((item, weight))
            self._weight += weight
            self._changed.notify_all()

    def take(self, at_least: int = 1, timeout: float | None = None) -> list[T] | None:
        """All items that are there, when their weight is ``at_least`` so much, or at the end, or
        after ``timeout`` seconds. None where there is nothing although it is not the end; nothing
        at the end."""
        with self._changed:
            enough = min(at_least, self._capacity)
            self._changed.wait_for(lambda: self._weight >= enough or self._ended, timeout)
            if not self._items and not self._ended:
                return None
            items = [item for item, _ in self._items]
            self._items.clear()
            self._weight = 0
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
