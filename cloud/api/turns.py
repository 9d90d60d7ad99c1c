"""A bounded number of things at once; who comes beyond it is told to come again, never queued."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TypeVar

from shared.errors import Overloaded

Found = TypeVar("Found")
_KEPT = 8
"""One in so many turns is for others: one caller that takes a byte a minute would have them all."""


class Turns:
    """`what` names them in messages."""

    def __init__(self, what: str, count_max: int) -> None:
        self._what, self._count_max = what, count_max
        self._each_max = count_max - count_max // _KEPT
        self._by_caller: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._by_caller.total()

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Raises `Overloaded`."""
        self._take(caller)
        try:
            yield
        finally:
            self._give_back(caller)

    async def in_thread(self, caller: str, work: Callable[[], Found]) -> Found:
        """What it gives. A thread cannot be cancelled, so it goes as `to_its_end`."""
        return await self.to_its_end(caller, lambda: asyncio.to_thread(work))

    async def to_its_end(
        self, caller: str, work: Callable[[], Coroutine[object, object, Found]]
    ) -> Found:
        """What it gives. It goes on, and its place is taken until it ends, though who asked has left.
        Raises `Overloaded`.
        """
        self._take(caller)
        working = asyncio.create_task(work())
        working.add_done_callback(lambda _: self._give_back(caller))
        return await asyncio.shield(working)

    def _take(self, caller: str) -> None:
        if self.taken >= self._count_max or self._by_caller[caller] >= self._each_max:
            raise Overloaded(
                f"{self.taken} {self._what} are under way, {self._by_caller[caller]} of them yours, "
                "as many as there may be; come again",
                1.0,
            )
        self._by_caller[caller] += 1

    def _give_back(self, caller: str) -> None:
        self._by_caller[caller] -= 1
        if not self._by_caller[caller]:
            del self._by_caller[caller]
