"""A job's checkpoints where another machine finds them: the newest now and then, and the last one."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.store.claim_rows import Claimed
from cloud.training.worker import keeping
from cloud.training.worker.desk import Desk
from cloud.training.worker.threads import Threads
from shared.errors import HybridgeError

log = logging.getLogger(__name__)
CHECKPOINTS: Final = "checkpoints"
_LAST_S: Final = 10.0
"""For the last one: within a worker's drain, and whoever takes the place waits for it."""


class Sharing:
    """One copy at a time: a later one that is stored first would be taken for the older, and go.

    That one cannot be copied costs only time, at most `_LAST_S` of it at the end, and is said once an
    attempt.
    """

    def __init__(
        self,
        job: Claimed,
        folder: Path,
        blobs: Blobs,
        desk: Desk,
        every_s: float,
        threads: Threads,
    ) -> None:
        """`folder`: the job's, and `threads` those in it."""
        self._job, self._folder, self._blobs, self._desk = job, folder.absolute(), blobs, desk
        self._every_s, self._threads = every_s, threads
        self._clock = asyncio.get_running_loop().time
        self._began_at = self._clock()
        self._newest: Path | None = None
        self._shared: Path | None = None
        self._under_way: asyncio.Task[None] | None = None
        self._is_failing = False

    def written(self, checkpoint: Path) -> None:
        """By the job's process. It is copied where that is due."""
        self._newest = checkpoint
        is_due = self._clock() - self._began_at >= self._every_s
        if is_due and (self._under_way is None or self._under_way.done()):
            self._under_way = asyncio.create_task(self._share(checkpoint), name="sharing")

    async def last(self) -> None:
        """Of a process that ended, and that goes on elsewhere: its newest one."""
        try:
            async with asyncio.timeout(_LAST_S):
                if self._under_way is not None:
                    await asyncio.wait([self._under_way])
                if self._newest is not None and self._newest != self._shared:
                    await self._share(self._newest)
        except TimeoutError:
            self._failed(f"the store took longer than {_LAST_S:g} s")

    async def end(self) -> None:
        """Nobody waits for a copy any more; a thread that is at one may be."""
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.gather(self._under_way, return_exceptions=True)

    async def _share(self, path: Path) -> None:
        self._began_at = self._clock()
        if path.parent != self._folder / CHECKPOINTS:
            return
        try:
            kept = await self._threads.call(keeping.store, self._blobs, path, path.name)
            before = await self._desk.keep_checkpoint(self._job, kept.sha256, kept.name)
            self._shared = path
            if before is not None:
                await asyncio.to_thread(self._blobs.remove, before)
        except (HybridgeError, ValueError) as error:
            self._failed(str(error))

    def _failed(self, why: str) -> None:
        if not self._is_failing:
            log.warning("checkpoint_not_shared", extra={"job": self._job.id, "why": why[:300]})
        self._is_failing = True
