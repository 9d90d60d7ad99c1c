"""ARC, the adaptive replacement cache: Megiddo & Modha, FAST 2003, figure 4. Pure.

Two lists of what is held (seen once lately, seen twice) and two of the keys that lately fell out of
either. A key that comes back from the first pair's ghosts says that recency deserves more room, one
from the second's that frequency does. A scan fills the first list alone and leaves the second be.

The paper counts pages of one size; here each has a weight, and every count is a sum of weights.
With weights of 1 each step is the paper's (a test holds it against the paper's pseudo-code).
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _List(OrderedDict[K, tuple[V, int]]):
    """Oldest first, with the weight of all."""

    weight = 0

    def add(self, key: K, value: V, weight: int) -> None:
        self[key] = (value, weight)
        self.weight += weight

    def take(self, key: K) -> tuple[V, int] | None:
        found = self.pop(key, None)
        if found is not None:
            self.weight -= found[1]
        return found

    def take_oldest(self) -> tuple[K, int]:
        key, (_, weight) = self.popitem(last=False)
        self.weight -= weight
        return key, weight


class Arc(Generic[K, V]):
    """Holds values of up to `capacity` in weight, and as much again of keys alone.

    `weight_of` gives at least 1.
    """

    def __init__(self, capacity: int, weight_of: Callable[[V], int]) -> None:
        self._capacity, self._weight_of = capacity, weight_of
        self._recent: _List[K, V] = _List()  # T1: seen once
        self._frequent: _List[K, V] = _List()  # T2: seen again
        self._recent_gone: _List[K, None] = _List()  # B1
        self._frequent_gone: _List[K, None] = _List()  # B2
        self._target = 0.0  # p: the weight that the recent list should have

    def __len__(self) -> int:
        return len(self._recent) + len(self._frequent)

    @property
    def weight(self) -> int:
        return self._recent.weight + self._frequent.weight

    def get(self, key: K) -> V | None:
        frequent = self._frequent
        held = frequent.get(key)
        if held is not None:
            frequent.move_to_end(key)
            return held[0]
        held = self._recent.take(key)
        if held is None:
            return None
        frequent.add(key, *held)
        return held[0]

    def put(self, key: K, value: V) -> None:
        weight = self._weight_of(value)
        if weight > self._capacity:
            self._drop(key)
        elif self._recent.take(key) is not None or self._frequent.take(key) is not None:
            self._keep_again(key, value, weight, returned_frequent=False)
        elif key in self._recent_gone:
            self._learn(weight, self._recent_gone, self._frequent_gone, towards_recent=True)
            self._recent_gone.take(key)
            self._keep_again(key, value, weight, returned_frequent=False)
        elif key in self._frequent_gone:
            self._learn(weight, self._frequent_gone, self._recent_gone, towards_recent=False)
            self._frequent_gone.take(key)
            self._keep_again(key, value, weight, returned_frequent=True)
        else:
            self._keep_first(key, value, weight)

    def _learn(
        self, weight: int, own: _List[K, None], other: _List[K, None], *, towards_recent: bool
    ) -> None:
        step = max(1.0, other.weight / own.weight) * weight
        if towards_recent:
            self._target = min(float(self._capacity), self._target + step)
        else:
            self._target = max(0.0, self._target - step)

    def _keep_again(self, key: K, value: V, weight: int, *, returned_frequent: bool) -> None:
        self._make_room(weight, returned_frequent=returned_frequent)
        while self._total + weight > 2 * self._capacity:  # only when it has grown heavier
            (self._frequent_gone or self._recent_gone).take_oldest()
        self._frequent.add(key, value, weight)

    def _keep_first(self, key: K, value: V, weight: int) -> None:
        recent, gone, room = self._recent, self._recent_gone, self._capacity - weight
        while gone and recent.weight + gone.weight > room:
            gone.take_oldest()
        while recent.weight > room:
            recent.take_oldest()  # seen once, and the list is full of such: no ghost
        while self._frequent_gone and self._total + weight > 2 * self._capacity:
            self._frequent_gone.take_oldest()
        self._make_room(weight, returned_frequent=False)
        recent.add(key, value, weight)

    def _make_room(self, weight: int, *, returned_frequent: bool) -> None:
        """The paper's REPLACE, until `weight` fits."""
        while self.weight + weight > self._capacity:
            recent = self._recent.weight
            over = recent > self._target or (returned_frequent and recent == self._target)
            if self._recent and (over or not self._frequent):
                key, left = self._recent.take_oldest()
                self._recent_gone.add(key, None, left)
            else:
                key, left = self._frequent.take_oldest()
                self._frequent_gone.add(key, None, left)

    @property
    def _total(self) -> int:
        return self.weight + self._recent_gone.weight + self._frequent_gone.weight

    def _drop(self, key: K) -> None:
        for held in (self._recent, self._frequent):
            held.take(key)
