"""Take work while there is room for it, wherever it waits: jobs and deliveries alike.

It looks when it is woken, when something ended, and every `look_s` for what other processes left.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.errors import Unavailable

log = logging.getLogger(__name__)
W = TypeVar("W")


class Pull(Generic[W]):
    """`take(n)` gives at most `n` pieces; `work` does one and does not raise but for a fault."""

    def __init__(
        self,
        what: str,
        take: Callable[[int], Awaitable[Sequence[W]]],
        work: Callable[[W], Awaitable[None]],
        *,
        in_hand_max: int,
        look_s: float,
        group_max: int | None = None,
    ) -> None:
        """`group_max`: of one `take`. Raises nothing; `what` is for the log."""
        self._what, self._take, self._work = what, take, work
        self._in_hand_max, self._look_s = in_hand_max, look_s
        self._group_max = group_max or in_hand_max
        self._woken, self._draining = asyncio.Event(), False
        self._failing = False
        self.in_hand = 0

    def wake(self) -> None:
        """Say that there may be work."""
        self._woken.set()

    def drain(self) -> None:
        """Take nothing more; `run` returns when what is in hand has ended."""
        self._draining = True
        self._woken.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while not self._draining:
                self._woken.clear()
                room = min(self._in_hand_max - self.in_hand, self._group_max)
                taken = await self._some(room) if room else ()
                for piece in taken:
                    self.in_hand += 1
                    tasks.create_task(self._one(piece))
                if not room or len(taken) < room:
                    await self._rest()

    async def _some(self, count_max: int) -> Sequence[W]:
        try:
            taken = await self._take(count_max)
        except Unavailable as error:
            if not self._failing:
                self._failing = True
                log.error(  # noqa: TRY400  no trace to show
                    "jobs_not_taken", extra={"what": self._what, "why": str(error)[:300]}
                )
            return ()
        if self._failing:
            self._failing = False
            log.warning("jobs_taken_again", extra={"what": self._what})
        return taken

    async def _one(self, piece: W) -> None:
        try:
            await self._work(piece)
        finally:
            self.in_hand -= 1
            self._woken.set()

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._look_s):
                await self._woken.wait()
