"""Who holds one of a bounded number of places, and who must go when another comes. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Taken(Generic[Holder]):
    """A place was free, or `instead_of` must go for it."""

    instead_of: Holder | None = None


class Places(Generic[Holder]):
    """Holders are idle or at work. Only those that have been idle for `grace_s` ever have to go, the
    longest idle first; every operation takes constant time.
    """

    def __init__(self, count_max: int, grace_s: float) -> None:
        self._count_max, self._grace_s = count_max, grace_s
        self._idle: dict[Holder, float] = {}  # since when, the longest idle first
        self._at_work: set[Holder] = set()

    def __len__(self) -> int:
        return len(self._idle) + len(self._at_work)

    @property
    def at_work(self) -> int:
        return len(self._at_work)

    def take(self, holder: Holder, now: float) -> Taken[Holder] | None:
        """None: there is no room. A new holder is idle; one that has a place keeps it."""
        gone = None
        if holder in self._idle or holder in self._at_work:
            return Taken()
        if len(self) >= self._count_max:
            gone = next(iter(self._idle), None)
            if gone is None or now - self._idle[gone] < self._grace_s:
                return None
            del self._idle[gone]
        self._idle[holder] = now
        return Taken(gone)

    def start_work(self, holder: Holder) -> None:
        if self._idle.pop(holder, None) is not None:
            self._at_work.add(holder)

    def end_work(self, holder: Holder, now: float) -> None:
        if holder in self._at_work:
            self._at_work.remove(holder)
            self._idle[holder] = now

    def works(self, holder: Holder) -> bool:
        return holder in self._at_work

    def leave(self, holder: Holder) -> None:
        self._idle.pop(holder, None)
        self._at_work.discard(holder)
