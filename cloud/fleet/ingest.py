"""What devices say, from the link to the store and to rollouts, in batches.

Reports and presence are acknowledged once they are stored. Nothing that a device sends ends this: it
is counted by reason, and said once a while.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from cloud.fleet.asks import Asks
from cloud.fleet.broker_memory import OWN_NAME
from cloud.fleet.devices import Fleet
from cloud.fleet.driving.driver import Driver
from cloud.fleet.inbox import Dropped, Inbox, Waiting
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.parsing import Said, bytes_max, said, whose
from cloud.fleet.passing_on import events, heard, reports
from cloud.fleet.recording import Recorded
from cloud.fleet.settings import Ingest as Settings
from shared.errors import Malformed, TooLarge, Unavailable
from shared.fleet.asking import Told
from shared.fleet.telemetry import Telemetry
from shared.logs import OncePer
from shared.mqtt.link import Delivery

log = logging.getLogger(__name__)

_LOG_PERIOD_S: Final = 60.0
_AGAIN_S: Final = 2.0
_IDLE_S: Final = 10.0
_RATES_MAX: Final = 100_000


@dataclass(slots=True)
class _Batch:
    said: list[Said] = field(default_factory=list)
    refused: list[tuple[str, str, str]] = field(default_factory=list)
    """Reason, device, words."""
    recorded: Recorded | None = None


class Ingest:
    """`run` until `drain`; `take` is the link's handler."""

    def __init__(
        self,
        fleet: Fleet,
        driver: Driver,
        asks: Asks,
        settings: Settings,
        metrics: FleetMetrics,
        wrote: Callable[[], None],
        own_message: Callable[[], None],
        now: Callable[[], float] = time.time,
        telemetry: Callable[[Iterable[tuple[str, Telemetry]]], None] | None = None,
    ) -> None:
        """`telemetry` takes what devices report, of those that the fleet knows. `wrote` is called when there may be a line in the log, `own_message` for the fleet's own
        retained message; `now` gives Unix seconds.
        """
        self._fleet, self._driver, self._asks = fleet, driver, asks
        self._settings, self._metrics = settings, metrics
        self._wrote, self._own_message, self._now = wrote, own_message, now
        self._telemetry = telemetry
        self._inbox = Inbox(
            settings.pending_max, settings.per_device_s, settings.per_device_burst, _RATES_MAX,
            self._dropped,
        )  # fmt: skip
        self._came, self._full, self._ends = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._said = OncePer(_LOG_PERIOD_S)
        metrics.pending.set_function(lambda: len(self._inbox))

    def __len__(self) -> int:
        """Messages that wait."""
        return len(self._inbox)

    def take(self, delivery: Delivery) -> None:
        try:
            device, kind = whose(delivery.topic)
        except Malformed as error:
            self._refuse("topic", delivery.topic[:80], str(error))
            delivery.ack()
            return
        if device == OWN_NAME:
            delivery.ack()
            if kind == "state":
                self._own_message()
            return
        if kind == "told" and not self._asks.awaits(device):
            self._metrics.refused.labels("unasked").inc()
            delivery.ack()
            return
        if (size := len(delivery.payload)) > (most := bytes_max(kind)):  # none waits in memory
            self._refuse("toolarge", device, f"{kind}: {size} bytes; at most {most} are read")
            delivery.ack()
            return
        self._inbox.put(Waiting(device, kind, delivery.payload, delivery.ack))
        self._came.set()
        if len(self._inbox) >= self._settings.batch_max:
            self._full.set()

    def drain(self) -> None:
        """Take no more; `run` stores what waits first."""
        self._ends.set()
        self._came.set()
        self._full.set()

    async def run(self) -> None:
        while True:
            if not self._ends.is_set():
                await self._something()
            self._came.clear()
            taken = self._inbox.take(self._settings.batch_max, time.monotonic())
            is_stored = await self._store(taken)
            if self._ends.is_set() and not (taken and is_stored):
                return  # what is left is not acknowledged, and comes again
            if not is_stored:
                await self._pause()
            if len(self._inbox):
                self._came.set()

    async def _something(self) -> None:
        """Wait for a message and for others to come along; not for ever: quarantines end by time."""
        try:
            async with asyncio.timeout(_IDLE_S):
                await self._came.wait()
        except TimeoutError:
            return
        await self._gathered()

    async def _gathered(self) -> None:
        """Wait for others to come along."""
        try:
            async with asyncio.timeout(self._settings.batch_s):
                await self._full.wait()
        except TimeoutError:
            pass
        if len(self._inbox) < self._settings.batch_max:
            self._full.clear()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_AGAIN_S):
                await self._ends.wait()
        except TimeoutError:
            pass

    async def _store(self, taken: list[Waiting]) -> bool:
        """False: the store is away; what was taken waits for the next connection, or is said again."""
        began = time.monotonic()
        batch = _Batch()
        try:
            await asyncio.to_thread(self._record, taken, batch)
        except Unavailable as error:
            if self._said.admits("store", began) is not None:
                log.warning("store_away", extra={"why": str(error)})
            for message in taken:
                self._inbox.put_back(message)
            return False
        self._metrics.record_seconds.observe(time.monotonic() - began)
        for message in taken:
            if message.kind != "tel":
                message.ack()
        for reason, device, words in batch.refused:
            self._refuse(reason, device, words)
        for one in batch.said:
            self._metrics.messages.labels(one.kind).inc()
            if isinstance(one.document, Told):
                self._asks.told(one.device, one.document)
        if batch.recorded is not None:
            self._pass_on(batch.recorded, batch.said)
        return True

    def _record(self, taken: list[Waiting], batch: _Batch) -> None:
        """On a thread: parsing a report takes 20 to 60 us."""
        for message in taken:
            try:
                batch.said.append(said(message.device, message.kind, message.payload))
            except (Malformed, TooLarge) as error:
                batch.refused.append((type(error).__name__.lower(), message.device, str(error)))
        batch.recorded = self._fleet.record(
            [(one.device, heard(one)) for one in batch.said], self._now()
        )

    def _pass_on(self, recorded: Recorded, batch: list[Said]) -> None:
        for reason, count in recorded.refused.items():
            self._metrics.refused.labels(reason.replace(" ", "_")).inc(count)
        for device in sorted(recorded.strangers):
            if self._said.admits(f"stranger {device}", time.monotonic()) is not None:
                log.warning("device_refused", extra={"device": device, "why": "unknown or revoked"})
        self._driver.feed(events(recorded, batch))
        if self._telemetry is not None:
            self._telemetry(reports(recorded, batch))
        if recorded.new:
            self._driver.settle()
        if recorded.new or recorded.quarantined or recorded.returned:
            self._wrote()

    def _dropped(self, reason: Dropped, device: str) -> None:
        self._metrics.refused.labels(reason).inc()
        if (
            reason == "too_fast"
            and self._said.admits(f"fast {device}", time.monotonic()) is not None
        ):
            log.warning(
                "device_floods",
                extra={"device": device, "per_s_max": self._settings.per_device_s},
            )

    def _refuse(self, reason: str, device: str, words: str) -> None:
        self._metrics.refused.labels(reason).inc()
        held_back = self._said.admits(f"{reason} {device}", time.monotonic())
        if held_back is not None:
            log.warning(
                "message_refused",
                extra={
                    "reason": reason, "device": device, "why": words[:500],
                    "more_since_last": held_back,
                },
            )  # fmt: skip
