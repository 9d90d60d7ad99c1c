"""What a cache keeps when it is full: one protocol, LRU and LFU by cachetools, one bound. Pure."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, assert_never

from cachetools import Cache, LFUCache, LRUCache

from cloud.serving.caches.arc import Arc
from cloud.serving.caches.settings import PolicyName

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Policy(Protocol[K_contra, V]):
    """Never holds more than its capacity, in the unit of its weights."""

    def get(self, key: K_contra) -> V | None:
        """What is held for `key`, which counts as a use of it."""
        ...

    def put(self, key: K_contra, value: V) -> None:
        """Hold `value`, unless it alone is over the capacity: then `key` is held no more."""
        ...

    def __len__(self) -> int: ...

    @property
    def weight(self) -> int:
        """Of all that is held."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """Entries and bytes as one weight: an entry takes the greater of its two shares.

    So a policy needs one capacity, and for entries of a usual size (bytes_max / entries_max and
    below) it is the textbook's policy of `entries_max` places.
    """

    entries_max: int
    bytes_max: int

    @property
    def capacity(self) -> int:
        return self.entries_max * self.bytes_max

    def weight(self, size_bytes: int) -> int:
        return max(size_bytes * self.entries_max, self.bytes_max)


class Classic(Generic[K, V]):
    """One of cachetools' caches."""

    def __init__(self, held: Cache[K, V]) -> None:
        self._held = held

    def get(self, key: K) -> V | None:
        return self._held.get(key)

    def put(self, key: K, value: V) -> None:
        try:
            self._held[key] = value
        except ValueError:  # it is over the capacity alone
            self._held.pop(key, None)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def weight(self) -> int:
        return int(self._held.currsize)


def policy_of(name: PolicyName, bounds: Bounds, bytes_of: Callable[[V], int]) -> Policy[K, V]:
    """A policy for values of `bytes_of` bytes each."""

    def weight_of(value: V) -> int:
        return bounds.weight(bytes_of(value))

    match name:
        case "lru":
            return Classic(LRUCache(bounds.capacity, getsizeof=weight_of))
        case "lfu":
            return Classic(LFUCache(bounds.capacity, getsizeof=weight_of))
        case "arc":
            return Arc(bounds.capacity, weight_of)
        case _:
            assert_never(name)
