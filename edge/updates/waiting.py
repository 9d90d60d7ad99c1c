"""Live samples that wait for the candidate's thread: those that the cloud will answer go first."""

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiting(Generic[T]):
    """Bounded. Any thread may call."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._first: deque[T] = deque()
        self._rest: deque[T] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: T, *, first: bool) -> bool:
        """Whether none had to go for it: where it is full, the newest of the rest makes room for
        one that goes first, and any other is not taken.
        """
        with self._changed:
            full = len(self._first) + len(self._rest) >= self._most
            if full and not (first and self._rest):
                return False
            if full:
                self._rest.pop()
            (self._first if first else self._rest).append(item)
            self._changed.notify()
            return not full

    def get(self) -> T | None:
        """The next one; waits for it. None once it is closed."""
        with self._changed:
            while not (self._closed or self._first or self._rest):
                self._changed.wait()
            if self._closed:
                return None
            return (self._first or self._rest).popleft()

    def close(self) -> None:
        """Nobody gets anything any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
