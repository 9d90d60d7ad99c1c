"""A region's control plane: its store, link, rollouts and API, in one TaskGroup.

A part that dies takes the process down; its supervisor starts it again. It serves no inference, and
devices do not notice that it is away.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry

from cloud.fleet.api.app import FleetServer
from cloud.fleet.asks import Asks
from cloud.fleet.certifying import Certifying
from cloud.fleet.config import FleetConfig
from cloud.fleet.control import Control
from cloud.fleet.devices import Fleet
from cloud.fleet.drift.drifting import Drifting
from cloud.fleet.drift.keeping import DriftKeeping
from cloud.fleet.drift.references import References
from cloud.fleet.driving.driver import Driver
from cloud.fleet.happened import Happened
from cloud.fleet.identity.ca import DeviceCa
from cloud.fleet.ingest import Ingest
from cloud.fleet.link import fleet_link
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.publishing import Publishing
from cloud.fleet.released import Released
from cloud.fleet.revoking import Revoking
from cloud.fleet.store.database import FleetDatabase
from cloud.gateway.counts import GatewayCounts
from cloud.gateway.gateway import Gateway
from shared.errors import InUse, Unavailable

log = logging.getLogger(__name__)


class FleetService:
    """`run` once. `ready` is called with the API's URL when it can answer."""

    def __init__(
        self,
        config: FleetConfig,
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
        with _alone(config.state_dir / "fleet.lock"):
            async with self._store() as (fleet, keeping):
                ca = None
                if config.identity is not None:
                    ca = await asyncio.to_thread(DeviceCa.open, config.identity.ca)
                return await self._serve(fleet, keeping, ca)

    async def _serve(self, fleet: Fleet, keeping: DriftKeeping, ca: DeviceCa | None) -> bool:
        config, counts = self._config, CollectorRegistry()
        metrics = FleetMetrics(counts)
        gateway = self._gateway = Gateway(config.gateway, GatewayCounts(counts))
        happened, publishing = Happened(fleet), Publishing(fleet, metrics)
        driver = Driver(
            fleet, config.driving, metrics, publishing.kick, happened.look, self._now
        )  # fmt: skip
        metrics.rollouts.set_function(lambda: driver.count)
        asks = Asks(publishing.send, config.api.asks_max, config.api.told_s_max)
        drifting = Drifting(
            keeping, References(config.registry, random.Random()),  # noqa: S311  spreads retries
            config.drift, metrics, happened.look, self._now,
        )  # fmt: skip
        ingest = Ingest(
            fleet, driver, asks, config.ingest, metrics, happened.look, publishing.own_message,
            self._now, drifting.feed,
        )  # fmt: skip

        def on_up() -> None:
            metrics.link_up.set(1)
            publishing.link_up()

        def on_down() -> None:
            metrics.link_up.set(0)
            publishing.link_down()

        link = fleet_link(config.broker, on_delivery=ingest.take, on_up=on_up, on_down=on_down)
        publishing.through(link)
        certifying, revoking = self._identity(fleet, ca)
        control = Control(
            config.name, fleet, driver, asks, publishing, Released(config.registry), happened,
            drifting, _nothing if revoking is None else revoking.write_soon, self._now,
        )  # fmt: skip
        server = FleetServer(control, certifying, gateway, config.api, metrics, counts)
        async with server.listening() as url, asyncio.TaskGroup() as parts:
            aside = [
                parts.create_task(gateway.run(), name="gateway"),
                parts.create_task(happened.run(), name="happened"),
            ]
            if revoking is not None:
                aside.append(parts.create_task(revoking.run(), name="revoking"))
            taking = parts.create_task(ingest.run(), name="ingest")
            driving = parts.create_task(driver.run(), name="driver")
            drifts = parts.create_task(drifting.run(), name="drift")
            publishes = parts.create_task(publishing.run(), name="publishing")
            linked = parts.create_task(link.run(), name="link")
            log.info("listening", extra={"url": url})
            self._announce(url)
            await self._stop.wait()
            log.info("draining")
            server.begin_end()
            try:
                async with asyncio.timeout(config.drain_s):
                    await server.until_quiet()
                    # in the order in which things pass through them
                    for part, ended in (
                        (ingest, taking), (driver, driving), (drifting, drifts),
                        (publishing, publishes), (link, linked),
                    ):  # fmt: skip
                        part.drain()
                        await asyncio.wait([ended])
            except TimeoutError:
                log.error("drain_cut")  # noqa: TRY400  no trace to show
                for ended in (taking, driving, drifts, publishes, linked):
                    ended.cancel()
                return False
            finally:
                for one in aside:
                    one.cancel()
        return True

    def _identity(
        self, fleet: Fleet, ca: DeviceCa | None
    ) -> tuple[Certifying | None, Revoking | None]:
        settings = self._config.identity
        if ca is None or settings is None:
            return None, None
        certifying = Certifying(fleet, ca, settings, self._config.device_broker)
        return certifying, Revoking(certifying, fleet, settings, self._now)

    @contextlib.asynccontextmanager
    async def _store(self) -> AsyncIterator[tuple[Fleet, DriftKeeping]]:
        database = FleetDatabase(self._config.store_url)
        try:
            await asyncio.to_thread(database.open)
            with database.owned():
                settings = self._config.devices
                yield Fleet(database, settings), DriftKeeping(database, settings)
        finally:
            await asyncio.to_thread(database.close)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two that move the same rollouts would undo each other's steps. Raises `InUse`."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUse(
                f"{path}: another fleet process uses this state_dir; end it first"
            ) from error
        yield
    finally:
        os.close(handle)


def _nothing() -> None:
    """Nobody has certificates here."""
