"""One process's part of the asynchronous tier, put together. Others may share its database."""

import asyncio
import time
from collections.abc import Callable, Sequence

from cloud.jobs.commits import Commits
from cloud.jobs.counts import JobCounts
from cloud.jobs.database import JobDatabase
from cloud.jobs.desk import JobDesk
from cloud.jobs.record import JobId
from cloud.jobs.runner import Answering, JobRunner
from cloud.jobs.settings import JobSettings
from cloud.jobs.waits import Waits
from cloud.jobs.webhooks.courier import Courier
from cloud.jobs.webhooks.guard import LookUp, WebhookGuard, system_look_up


class Jobs:
    """`await open()`, `run()` once, until `drain()`, then `await close()`. Belongs to one event loop."""

    def __init__(
        self,
        url: str,
        rules: JobSettings,
        answering: Answering,
        counts: JobCounts,
        *,
        look_up: LookUp = system_look_up,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`url`: SQLAlchemy's; `wall`: Unix seconds. Raises `Malformed` for one that is none."""
        self._database = JobDatabase(url)
        self._commits = Commits(self._database, rules.pending_max)
        self._waits = Waits(self._commits, rules.look_s, rules.waits_max)
        self._courier = Courier(self._commits, rules, counts, look_up=look_up, wall=wall)
        self._runner = JobRunner(
            self._commits, answering, rules, counts, on_ended=self._ended, wall=wall,
        )  # fmt: skip
        guard = WebhookGuard(rules.webhook, counts, look_up)
        self.desk = JobDesk(
            self._commits, self._waits, guard, rules, counts, on_accepted=self._runner.wake, wall=wall,
        )  # fmt: skip

    @property
    def up(self) -> bool:
        """Whether the last commit succeeded."""
        return self._commits.up

    @property
    def in_hand(self) -> int:
        return self._runner.in_hand

    async def open(self) -> None:
        """Create what is missing. Raises `Unavailable`."""
        await asyncio.to_thread(self._database.open)

    async def run(self) -> None:
        """Until `drain`: what is in hand then is finished; the rest is another's, or the next start's."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._runner.run(), name="jobs")
            parts.create_task(self._courier.run(), name="webhooks")
            parts.create_task(self._waits.run(), name="long-polls")

    def drain(self) -> None:
        """Take no more to run; who polls is let go, with 202.

        The desk still accepts: what it takes is on disk, for another or for the next start.
        """
        self._runner.drain()
        self._courier.drain()
        self._waits.drain()

    async def close(self) -> None:
        """After `run`, when nobody can ask any more."""
        await self.desk.finish()
        self._commits.close()
        self._database.close()

    def _ended(self, ids: Sequence[JobId]) -> None:
        self._waits.tell(ids)
        self._courier.wake()
