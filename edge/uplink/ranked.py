"""A priority queue whose members can leave from the middle. Ties leave in the order they came."""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
_SLACK = 64


class Ranked(Generic[K]):
    """Lowest rank first. `K` is anything hashable; O(log n) to add, amortised too for leaving."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, ...], int, K]] = []
        self._turn_of: dict[K, int] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._turn_of)

    def __contains__(self, key: K) -> bool:
        return key in self._turn_of

    def __iter__(self) -> Iterator[K]:
        """In the order of their last `add`."""
        return iter(self._turn_of)

    def add(self, key: K, *rank: float) -> None:
        """A key that is already here moves to its new rank."""
        self._turn_of.pop(key, None)
        self._turn += 1
        self._turn_of[key] = self._turn
        heapq.heappush(self._heap, (rank, self._turn, key))
        self._compact()

    def discard(self, key: K) -> None:
        self._turn_of.pop(key, None)
        self._compact()

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._turn_of) + _SLACK:
            self._heap = [entry for entry in self._heap if self._turn_of.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def first(self) -> tuple[K, tuple[float, ...]] | None:
        """The key of lowest rank and its rank, left in place."""
        while self._heap:
            rank, turn, key = self._heap[0]
            if self._turn_of.get(key) == turn:
                return key, rank
            heapq.heappop(self._heap)
        return None
