"""One beat after the other, and for how long no answer to one is still no loss.

A beat that gets no answer is waited for and not given up: what it may have claimed would be nobody's. The
leases that it was to renew run out all the same.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from cloud.training.worker.desk import Answer
from shared.errors import Unavailable

log = logging.getLogger(__name__)


class Beating:
    """Of one worker."""

    def __init__(self, beat: Callable[[], Coroutine[Any, Any, Answer]], lease_s: float) -> None:
        self._beat, self._lease_s = beat, lease_s
        self._clock = asyncio.get_running_loop().time
        self._renewed_at = self._began = self._clock()
        self._under_way: asyncio.Task[Answer] | None = None
        self._said: type[Unavailable] | None = None
        """Why there is no answer."""

    @property
    def is_under_way(self) -> bool:
        """One has had no answer yet."""
        return self._under_way is not None

    @property
    def is_lease_over(self) -> bool:
        """Since the last one that had an answer: our jobs may be others' by now."""
        return self._clock() >= self._renewed_at + self._lease_s

    @property
    def may_bring_jobs(self) -> bool:
        """The one under way: what it claims is ours for a lease from its beginning."""
        return self.is_under_way and self._clock() < self._began + self._lease_s

    async def answer(self, kick: asyncio.Event, until: float) -> Answer | None:
        """Of the beat under way, or of a new one. None where the database is away or a clock off, each of
        which is said once, as is the end of it; or where there is something to look at before its answer:
        `kick`, a lease that is over (the one before it, or its own), the time `until`.
        """
        if self._under_way is None:
            self._began = self._clock()
            self._under_way = asyncio.create_task(self._beat(), name="beat")
        now, leases = self._clock(), (self._renewed_at, self._began)
        ends = min([until, *(at + self._lease_s for at in leases if now < at + self._lease_s)])
        kicked = asyncio.create_task(kick.wait(), name="kicked")
        await asyncio.wait(
            [self._under_way, kicked],
            timeout=None if ends == float("inf") else max(0.0, ends - self._clock()),
            return_when=asyncio.FIRST_COMPLETED,
        )
        kicked.cancel()
        if not self._under_way.done():
            kick.clear()
            if self.is_lease_over:
                self._away(Unavailable(f"no answer for {self._lease_s:g} s"))
            return None
        beat, self._under_way = self._under_way, None
        try:
            answer = beat.result()
        except Unavailable as error:
            self._away(error)
            return None
        if self._said is not None:
            log.info("learning_database_back")
        self._said = None
        # whoever waited for longer than a lease has what this one claimed; the next follows after the usual pause
        is_late = self._clock() >= self._began + self._lease_s
        self._renewed_at = self._clock() if is_late else self._began
        return answer

    async def end(self) -> None:
        """Wait for no answer any more."""
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.gather(self._under_way, return_exceptions=True)

    def _away(self, error: Unavailable) -> None:
        if self._said is not type(error):
            log.warning("learning_database_away", extra={"why": str(error)[:300]})
        self._said = type(error)
