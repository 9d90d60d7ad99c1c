"""A job's checkpoints where another machine finds them: the newest now and then, and the last one."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.store.claim_rows import Claimed
from cloud.training.worker import keeping
from cloud.training.worker.desk import Desk
from cloud.training.worker.racing import Overtaken, unless
from shared.errors import HybridgeError

log = logging.getLogger(__name__)
CHECKPOINTS: Final = "checkpoints"


class Sharing:
    """One copy at a time: a later one that is stored first would be taken for the older, and go.

    That one cannot be copied costs only time, and is said once an attempt.
    """

    def __init__(
        self,
        job: Claimed,
        folder: Path,
        blobs: Blobs,
        desk: Desk,
        every_s: float,
        lost: asyncio.Event,
    ) -> None:
        """`folder`: the job's. `lost`: it is another worker's, and nothing is waited for."""
        self._job, self._folder, self._blobs, self._desk = job, folder.absolute(), blobs, desk
        self._every_s, self._lost = every_s, lost
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
        """Of a process that ended: its newest one."""
        await self.settled()
        if self._newest is not None and self._newest != self._shared:
            with suppress(Overtaken):
                await unless(self._lost, self._share(self._newest))

    async def settled(self) -> None:
        """Nothing of it is copied any more."""
        if self._under_way is not None:
            with suppress(Overtaken):
                await unless(self._lost, _to_its_end(self._under_way))

    async def _share(self, path: Path) -> None:
        self._began_at = self._clock()
        if path.parent != self._folder / CHECKPOINTS:
            return
        try:
            kept = await asyncio.to_thread(keeping.store, self._blobs, path, path.name)
            before = await self._desk.keep_checkpoint(self._job, kept.sha256, kept.name)
            self._shared = path
            if before is not None:
                await asyncio.to_thread(self._blobs.remove, before)
        except (HybridgeError, ValueError) as error:
            if not self._is_failing:
                log.warning(
                    "checkpoint_not_shared", extra={"job": self._job.id, "why": str(error)[:300]}
                )
            self._is_failing = True


async def _to_its_end(task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)
