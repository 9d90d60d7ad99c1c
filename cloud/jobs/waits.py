"""Long polls: who waits for which job, told by this process at once and by others within a look."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from functools import partial

from cloud.jobs.commits import Commits
from cloud.jobs.record import JobId
from cloud.jobs.results import ended_of
from shared.errors import Unavailable

log = logging.getLogger(__name__)
_LOOK_MAX = 500  # ids in one query


class Waits:
    """One query every `look_s` serves all who wait; none is made while nobody does."""

    def __init__(self, commits: Commits, look_s: float, waits_max: int) -> None:
        self._commits, self._look_s, self._waits_max = commits, look_s, waits_max
        self._waiting: dict[JobId, list[asyncio.Event]] = {}
        self._count = 0
        self._somebody, self._draining = asyncio.Event(), False

    @contextlib.contextmanager
    def place(self, id_: JobId) -> Iterator[asyncio.Event | None]:
        """An event that is set when the job has ended, or this process drains; None: no room.

        Take it first, then look at the job.
        """
        if self._count >= self._waits_max or self._draining:
            yield None
            return
        told = asyncio.Event()
        self._waiting.setdefault(id_, []).append(told)
        self._count += 1
        self._somebody.set()
        try:
            yield told
        finally:
            self._count -= 1
            events = self._waiting[id_]
            events.remove(told)
            if not events:
                del self._waiting[id_]

    def tell(self, ids: Sequence[JobId]) -> None:
        """Say that these have ended."""
        for id_ in ids:
            for told in self._waiting.get(id_, ()):
                told.set()

    async def run(self) -> None:
        while not self._draining:
            if not self._waiting:
                self._somebody.clear()
                await self._somebody.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await self._drained()
            await self._look()

    def drain(self) -> None:
        """Let everybody go who waits."""
        self._draining = True
        self._somebody.set()
        self.tell(list(self._waiting))

    async def _drained(self) -> None:
        while not self._draining:
            self._somebody.clear()
            await self._somebody.wait()

    async def _look(self) -> None:
        ids = list(self._waiting)
        for at in range(0, len(ids), _LOOK_MAX):
            some = ids[at : at + _LOOK_MAX]
            try:
                self.tell(list(await self._commits.read(partial(ended_of, ids=some))))
            except Unavailable as error:
                log.warning("waits_not_looked_at", extra={"why": str(error)[:300]})
                return
