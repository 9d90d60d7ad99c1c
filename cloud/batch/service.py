"""All near-line jobs of one serving process, with the links that feed their buffers."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from cloud.batch.buffer import Buffer
from cloud.batch.counts import NearLineCounts
from cloud.batch.intake import Intake
from cloud.batch.locate import locate
from cloud.batch.near_line import NearLine, NearLineStatus
from cloud.batch.online_model import Ask, Find
from cloud.batch.settings import BatchSettings, NearLineJob
from cloud.batch.source import Source
from shared.mqtt.link import Delivery, Link


class _Part(Protocol):
    async def run(self) -> None: ...

    def drain(self) -> None: ...


class LinkFor(Protocol):
    """Make a link that is not running yet."""

    def __call__(
        self,
        name: str,
        subscriptions: tuple[str, ...],
        on_delivery: Callable[[Delivery], None],
        on_down: Callable[[], None],
    ) -> Link:
        """`name` is to be part of its client id, which no other link of the broker may have."""
        ...


class NearLineJobs:
    """`run` until `drain`. Nothing is done when there are no jobs."""

    def __init__(
        self,
        settings: BatchSettings,
        state_dir: Path,
        find: Find,
        ask: Ask,
        link_for: LinkFor,
        counts: NearLineCounts,
    ) -> None:
        """`find` and `ask` are `ModelPool.find` and `Inference.answer`. Raises `Malformed`."""
        self._jobs: list[NearLine] = []
        self._intakes: list[Intake] = []
        self._links: list[Link] = []
        self._buffers: list[Buffer] = []
        for job in settings.near_line:
            if job.topic is None:
                where = str(job.folder) if job.url is None else job.url
                source: Callable[[], Source] = partial(locate, where)
                self._jobs.append(NearLine(job, source, find, ask, counts))
            else:
                self._add_topic(job, job.topic, state_dir, find, ask, link_for, counts)

    @property
    def _parts(self) -> tuple[_Part, ...]:
        return (*self._jobs, *self._intakes, *self._links)

    @property
    def status(self) -> tuple[NearLineStatus, ...]:
        return tuple(job.status for job in self._jobs)

    def drain(self) -> None:
        """Windows under way end after their batch; messages not yet kept stay with the broker."""
        for part in self._parts:
            part.drain()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for part in self._parts:
                    group.create_task(part.run(), name="near-line")
        finally:
            for buffer in self._buffers:
                buffer.close()

    def _add_topic(
        self,
        job: NearLineJob,
        topic: str,
        state_dir: Path,
        find: Find,
        ask: Ask,
        link_for: LinkFor,
        counts: NearLineCounts,
    ) -> None:
        buffer = Buffer(
            state_dir / f"near-line-{job.name}.db",
            messages_max=job.buffer_messages_max, bytes_max=job.buffer_bytes_max,
        )  # fmt: skip
        intake = Intake(job.name, buffer, job.message_bytes_max, counts)
        loop = asyncio.get_running_loop()

        def finished(names: list[str]) -> None:
            buffer.remove(names)
            counts.buffered.labels(job.name).set(buffer.count())
            loop.call_soon_threadsafe(intake.room_was_made)

        shared = f"$share/near-line-{job.name}/{topic}"  # each message to one of the workers
        self._links.append(link_for(f"near-line-{job.name}", (shared,), intake.take, intake.lost))
        self._jobs.append(NearLine(job, lambda: buffer, find, ask, counts, finished=finished))
        self._intakes.append(intake)
        self._buffers.append(buffer)
