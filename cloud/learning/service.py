"""A region's learning process: feedback store, job queue, loops and API, in one TaskGroup.

A part that dies takes the process down; its supervisor starts it again. It serves no inference and
trains nothing itself: workers claim jobs from the database, the registry takes what they made.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry

from cloud.feedback.database import FeedbackDatabase
from cloud.feedback.store import FeedbackStore
from cloud.feedback.upkeep import Upkeep
from cloud.gateway.counts import GatewayCounts
from cloud.gateway.gateway import Gateway
from cloud.learning.api.app import LearningServer
from cloud.learning.config import LearningConfig
from cloud.learning.data_set_readers import reader_of
from cloud.learning.feature_checking import FeatureChecking
from cloud.learning.known import FleetGroups, FleetSites, KnownDictionaries
from cloud.learning.loop.changes import Changes
from cloud.learning.loop.desk import LoopDesk
from cloud.learning.loop.driver import LoopDriver
from cloud.learning.loop.hands import Hands
from cloud.learning.loop.job_bundles import JobBundles
from cloud.learning.loop.job_hand import JobHand
from cloud.learning.loop.rollout_hand import RolloutHand
from cloud.learning.loop.sample_hand import SampleHand
from cloud.learning.loop.version_hand import VersionHand
from cloud.learning.metrics import LearningMetrics
from cloud.learning.models import Models
from cloud.learning.parts import Parts
from cloud.learning.payloads import Payloads
from cloud.learning.refitting import Refitting
from cloud.learning.serving import Served
from cloud.learning.shared_blobs import DataSetBlobs, named_by_jobs
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.training.queue.queue import JobQueue
from cloud.training.store.blobs import open_blobs
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from shared.errors import InUse, Unavailable

log = logging.getLogger(__name__)


class LearningService:
    """`run` once. `ready` is called with the API's URL when it can answer."""

    def __init__(
        self,
        config: LearningConfig,
        ready: Callable[[str], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now` gives Unix seconds."""
        self._config, self._announce, self._now = config, ready, now
        self._stop = asyncio.Event()
        self._gateway: Gateway | None = None

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Take nothing new; `run` returns once everything accepted is stored and answered."""
        self._stop.set()

    def read_again(self) -> None:
        """The keys of callers."""
        if self._gateway is not None:
            self._gateway.read_again()

    async def run(self) -> bool:
        """Serve until `stop`; whether everything ended within `drain_s`.

        Raises `Refused` or `Unavailable` when it cannot start, or a group of what a part died of.
        """
        config = self._config
        try:
            config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"state_dir {config.state_dir}: {error.strerror}") from error
        with _alone(config.state_dir / "learning.lock"):
            async with self._databases() as (wire, learning):
                return await self._serve(wire, learning)

    async def _serve(self, wire: Payloads, learning: LearningDatabase) -> bool:
        config, now, counts = self._config, self._now, CollectorRegistry()
        metrics = LearningMetrics(counts)
        gateway = self._gateway = Gateway(config.gateway, GatewayCounts(counts))
        blobs = open_blobs(config.artifacts, config.state_dir)
        await asyncio.to_thread(blobs.check)
        store = LoopStore(learning, config.loops)
        for loop in config.loops.declared:
            await asyncio.to_thread(store.declare, loop, now())
        models = await asyncio.to_thread(
            Models, config.worker.bundles, config.registry, config.state_dir / "bundles"
        )
        known = KnownDictionaries(models, config.registry, store, config.models)
        feedback = FeedbackStore(
            config.feedback,
            config.feedback_url,
            DataSetBlobs(blobs, named_by_jobs(learning)),
            known,
        )
        await asyncio.to_thread(feedback.open)
        upkeep = Upkeep(feedback, FleetSites(config.fleet), now)
        queue = JobQueue(learning, config.training, blobs, now)
        tracking = Tracking(learning)
        versions = VersionHand(config.registry, JobBundles(queue, blobs))
        hands = Hands(
            SampleHand(
                feedback, FleetGroups(config.fleet).devices, lambda model: store.loop(model).settings,
                config.loops.labels_read_max, now,
            ),
            JobHand(queue, tracking, learning, store), versions, RolloutHand(config.fleet),
        )  # fmt: skip
        changes = Changes()
        driver = LoopDriver(store, hands, config.loops, changes, metrics, now)
        refitting = Refitting(
            store, feedback, versions, models, config.fleet, config.refits,
            config.loops.trigger_s, now,
        )  # fmt: skip
        served = None if config.serving is None else Served(config.serving)
        checking = FeatureChecking(
            store, feedback, wire, models, served, config.checks, metrics, now
        )
        parts = Parts(
            config.name, feedback, blobs, queue, tracking,
            LoopDesk(store, driver, changes, now), refitting, checking, metrics,
            reader_of(learning, store), now,
        )  # fmt: skip
        server = LearningServer(parts, gateway, config.api, counts)
        async with server.listening() as url, asyncio.TaskGroup() as group:
            aside = [
                group.create_task(part.run(), name=name)
                for name, part in (
                    ("gateway", gateway), ("upkeep", upkeep), ("queue", queue),
                    ("dictionaries", known), ("refits", refitting), ("checks", checking),
                )
            ]  # fmt: skip
            driving = group.create_task(driver.run(), name="loops")
            log.info("listening", extra={"url": url})
            self._announce(url)
            await self._stop.wait()
            log.info("draining")
            server.begin_end()
            try:
                async with asyncio.timeout(config.drain_s):
                    await server.until_quiet()
                    driver.drain()
                    await asyncio.wait([driving])
            except TimeoutError:
                log.error("drain_cut")  # noqa: TRY400  no trace to show
                driving.cancel()
                return False
            finally:
                for one in aside:
                    one.cancel()
                feedback.close()
        return True

    @contextlib.asynccontextmanager
    async def _databases(self) -> AsyncIterator[tuple[Payloads, LearningDatabase]]:
        wire = Payloads(FeedbackDatabase(self._config.feedback_url))
        learning = LearningDatabase(self._config.training_url)
        try:
            await asyncio.to_thread(learning.open, MIGRATIONS)
            with learning.owned():
                yield wire, learning
        finally:
            await asyncio.to_thread(wire.close)
            await asyncio.to_thread(learning.close)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two that drive the same cycles would do each step twice. Raises `InUse`."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUse(
                f"{path}: another learning process uses this state_dir; end it first"
            ) from error
        yield
    finally:
        os.close(handle)
