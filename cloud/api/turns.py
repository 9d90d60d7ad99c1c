"""A bounded number of things at once; who comes beyond it is told to come again, never queued."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import Overloaded

_KEPT = 8
"""One in so many turns, and one at least where there are two, is for others: one caller that takes a
byte a minute would have them all."""


class Turns:
    """`what` names them in messages."""

    def __init__(self, what: str, count_max: int) -> None:
        self._what, self._count_max = what, count_max
        kept = max(1, count_max // _KEPT) if count_max > 1 else 0
        self._each_max = count_max - kept
        self._by_caller: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._by_caller.total()

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Raises `Overloaded`."""
        if self.taken >= self._count_max or self._by_caller[caller] >= self._each_max:
            raise Overloaded(
                f"{self.taken} {self._what} are under way, {self._by_caller[caller]} of them yours, "
                "as many as there may be; come again",
                1.0,
            )
        self._by_caller[caller] += 1
        try:
            yield
        finally:
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
