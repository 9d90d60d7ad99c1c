"""One serving process: broker (or the address of one), models, MQTT, HTTP, in one TaskGroup.

A part that dies takes the process down; its supervisor starts it again. The end goes the other way
round: readiness first, then who may still come, then what was accepted, then the models.
"""

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import asdict

from cloud.api.app import Parts
from cloud.api.schemas import ModelStatus, NearLineState, Status
from cloud.api.serving import Front, fronting
from cloud.batch.counts import NearLineCounts
from cloud.batch.service import NearLineJobs
from cloud.batch.settings import BatchSettings
from cloud.broker.launch import BrokerAddress, broker_running
from cloud.config import Config
from cloud.ingest.worker import Worker, link_settings, worker_ready
from cloud.monitoring.metrics import Metrics
from cloud.processes.inner import Inner
from cloud.processes.place import Place
from cloud.processes.siblings import Siblings
from cloud.processes.together import Together
from cloud.tier import Tier
from cloud.updates.updates import Updates
from shared.errors import Unavailable
from shared.mqtt.link import Delivery, Link

log = logging.getLogger(__name__)

_TICK_S = 1.0


class Service:
    """`run` once. `ready` is called with the API's and the broker's URL when it can answer."""

    def __init__(
        self, config: Config, ready: Callable[[str, str], None], place: Place | None = None
    ) -> None:
        """`place`: of several processes on one port, which this one is."""
        self._config, self._announce, self._place = config, ready, place
        self._metrics = Metrics()
        self._tier = Tier(config, self._metrics)
        self._stop = asyncio.Event()
        self._worker: Worker | None = None
        self._address: BrokerAddress | None = None
        self._windows: NearLineJobs | None = None

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Take nothing new; `run` returns once everything accepted is answered."""
        self._stop.set()

    def read_again(self) -> None:
        """Keys here, passwords and access rules of the broker, if it is ours."""
        self._tier.gateway.read_again()
        if self._address is not None:
            self._address.read_access_again()

    async def run(self) -> bool:
        """Serve until `stop`; whether everything accepted was finished within `drain_s`.

        Raises `Refused` or `Unavailable` when it cannot start, or a group of what a part died of.
        """
        config, tier = self._config, self._tier
        try:
            config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # requests lie here
        except OSError as error:
            raise Unavailable(f"state_dir {config.state_dir}: {error.strerror}") from error
        place = self._place
        siblings = None if place is None else Siblings(config.state_dir / "processes", place)
        parts = Parts(
            tier.pool, tier.inference, self.status, self._metrics, config.batching,
            gateway=tier.gateway, jobs=tier.jobs.desk, load=tier.load, log=tier.log,
            siblings=siblings, experiments=tier.experiments,
        )  # fmt: skip
        async with self._told(siblings), fronting(parts, config.api) as front:
            if place is None:  # health says how far it is; on a shared port the others answer
                await front.listen(config.api.port, shared=False)
            return await self._run(front)

    async def _run(self, front: Front) -> bool:
        config, tier = self._config, self._tier
        async with (
            broker_running(config.broker) as address,
            self._models(),
            worker_ready(config, address, tier, self._metrics) as worker,
        ):
            self._address, self._worker = address, worker
            await tier.jobs.open()
            return await self._serve(front, address, worker)

    def status(self) -> Status:
        tier, worker = self._tier, self._worker
        because = (
            "shutting down" if self._stop.is_set()
            else tier.why_not_ready or (
                "starting" if worker is None
                else worker.why_not_ready
            )
        )  # fmt: skip
        p99_s, target_ms = tier.load.p99_s, self._config.batching.p99_ms
        return Status(
            name=self._config.name,
            ready=because is None,
            not_ready_because=because,
            broker=self._broker,
            in_hand=worker.in_hand if worker else 0,
            store_up=worker is not None and worker.store_up,
            jobs_up=tier.jobs.up,
            busy_share=tier.load.busy_share,
            queue_depth=sum(s.batcher.interactive_depth for s in tier.pool.served),
            near_line=tuple(
                NearLineState(**asdict(one)) for one in self._windows.status
            ) if self._windows else (),
            p99_ms=None if p99_s is None else p99_s * 1e3,
            p99_target_ms=target_ms,
            models=tuple(
                ModelStatus(
                    name=s.name, version=s.version,
                    answers_for=s.manifest.answers_for, variant=s.model.variant,
                    why=s.model.why, queue_depth=s.batcher.depth, batch_ms=s.model.curve.table_ms(),
                )
                for s in tier.pool.served
            ),
        )  # fmt: skip

    @property
    def _broker(self) -> str | None:
        address = self._address
        if address is None:
            return None
        return f"mqtt{'s' if address.tls else ''}://{address.host}:{address.port}"

    @contextlib.asynccontextmanager
    async def _told(self, siblings: Siblings | None) -> AsyncIterator[None]:
        """The siblings can ask this process, where there are any."""
        if siblings is None:
            yield
            return
        alone = Together(self._tier.pool, self.status, self._metrics, None, self._tier.experiments)
        async with Inner(alone, self._tier.pool).listening(siblings.own_socket):
            yield

    @contextlib.asynccontextmanager
    async def _models(self) -> AsyncIterator[None]:
        try:
            await self._tier.start()
            yield
        finally:
            await self._tier.close()

    async def _serve(self, front: Front, address: BrokerAddress, worker: Worker) -> bool:
        tier = self._tier
        finished = False
        async with asyncio.TaskGroup() as parts:
            jobs = parts.create_task(tier.jobs.run(), name="jobs")
            near_line = self._windows = self._near_line(address)
            windows = parts.create_task(near_line.run(), name="near-line")
            others = [
                parts.create_task(address.watch(), name="broker"),
                parts.create_task(tier.gateway.run(), name="gateway"),
                parts.create_task(self._ticking(), name="tick"),
                jobs,
                windows,
            ]
            if tier.updates is not None:
                others.append(parts.create_task(tier.updates.run(), name="updates"))
            if tier.updates is None or tier.updates.served.is_set():
                worker.start(parts)
                await _first_of(worker.link_up.wait(), self._stop.wait())
            else:
                others.append(parts.create_task(self._join(worker, tier.updates, parts)))
            if not self._stop.is_set():
                # what is here stays: a big JSON's garbage would have all of it looked at, over and
                # over, while the event loop waits
                gc.collect()
                gc.freeze()
                if self._place is not None:
                    await front.listen(self._place.api_port, shared=True)
                self._announce(front.url, self._broker or "")
            await self._stop.wait()
            log.info("draining", extra={"in_hand": worker.in_hand})
            try:
                await self._end(front, worker, near_line, (jobs, windows))
                finished = True
            except TimeoutError:
                log.error("drain_cut", extra={"in_hand": worker.in_hand})  # noqa: TRY400  no trace to show
            for part in others:
                part.cancel()
            worker.cancel()
        return finished

    async def _join(self, worker: Worker, updates: Updates, parts: asyncio.TaskGroup) -> None:
        """Take escalations once there are models; until then other workers have the answers."""
        await updates.served.wait()
        if not self._stop.is_set():
            worker.start(parts)

    async def _end(
        self,
        front: Front,
        worker: Worker,
        near_line: NearLineJobs,
        slower: "tuple[asyncio.Task[None], ...]",
    ) -> None:
        """Raises `TimeoutError` when `drain_s` is over."""
        tier, config = self._tier, self._config
        front.begin_end()
        away = asyncio.create_task(worker.leave())  # its deliveries go to other workers at once
        if front.was_asked:
            await asyncio.sleep(config.notice_s)  # balancers look at readiness every second or so
        async with asyncio.timeout(config.drain_s):
            tier.jobs.drain()
            near_line.drain()
            await asyncio.gather(away, *slower)
            await front.end()  # until then health says what goes on
            await tier.jobs.close()
            await tier.pool.drain()

    def _near_line(self, address: BrokerAddress) -> NearLineJobs:
        """Of the first process only: two would do each window twice."""
        config, tier = self._config, self._tier
        settings = config.batch
        if self._place is not None and self._place.index:
            settings = BatchSettings()

        def link_for(
            name: str, subscriptions: tuple[str, ...],
            on_delivery: Callable[[Delivery], None], on_down: Callable[[], None],
        ) -> Link:  # fmt: skip
            return Link(
                link_settings(config, address, name), subscriptions=subscriptions,
                on_delivery=on_delivery, on_up=lambda _kept: None, on_down=on_down,
            )  # fmt: skip

        return NearLineJobs(
            settings, config.state_dir, tier.pool.find, tier.answer_window, link_for,
            NearLineCounts(self._metrics.registry),
        )  # fmt: skip

    async def _ticking(self) -> None:
        while True:
            self._tier.tick(time.monotonic())
            await asyncio.sleep(_TICK_S)


async def _first_of(*waits: Coroutine[None, None, object]) -> None:
    tasks = {asyncio.ensure_future(wait) for wait in waits}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
