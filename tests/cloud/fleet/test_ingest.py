"""From the link to the store: what is acknowledged when, and a store that is away."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from cloud.fleet.asks import Asks
from cloud.fleet.device_settings import DeviceSettings
from cloud.fleet.devices import Fleet
from cloud.fleet.driving.driver import Driver
from cloud.fleet.ingest import Ingest
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.parsing import KINDS, bytes_max
from cloud.fleet.recording import Recorded
from cloud.fleet.settings import Driving
from cloud.fleet.settings import Ingest as Settings
from cloud.fleet.store.database import FleetDatabase
from shared.errors import Unavailable
from shared.mqtt.link import Delivery


class AwayFleet(Fleet):
    """Its database is away for the first `away` batches."""

    away = 0

    def record(self, batch: Sequence[Any], now: float) -> Recorded:
        if self.away:
            self.away -= 1
            raise Unavailable("the disk is full")
        return super().record(batch, now)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[AwayFleet]:
    database = FleetDatabase(f"sqlite:///{tmp_path / 'fleet.db'}")
    database.open()
    yield AwayFleet(database, DeviceSettings(needs_enrolment=False))
    database.close()


class Office:
    def __init__(self, fleet: Fleet) -> None:
        self.metrics = FleetMetrics(CollectorRegistry())
        driver = Driver(fleet, Driving(), self.metrics, lambda: None, lambda: None)
        asks = Asks(lambda *_: asyncio.get_running_loop().create_future(), 1, 1.0)
        self.own = 0
        self.acked: list[bytes] = []
        self.ingest = Ingest(
            fleet, driver, asks, Settings(batch_s=0.01), self.metrics, lambda: None, self._own,
            lambda: 100.0,
        )  # fmt: skip

    def _own(self) -> None:
        self.own += 1

    def take(self, topic: str, payload: bytes) -> None:
        self.ingest.take(Delivery(topic, payload, lambda: self.acked.append(payload)))

    async def drained(self) -> None:
        self.ingest.drain()
        await self.ingest.run()


def test_presence_is_acknowledged_once_it_is_stored(fleet: AwayFleet) -> None:
    async def way() -> None:
        office = Office(fleet)
        office.take("hy/v1/a/up/state", b'{"online": true}')
        assert office.acked == []
        await office.drained()
        assert office.acked == [b'{"online": true}']

    asyncio.run(way())
    assert fleet.device("a").presence.online


def test_nonsense_is_acknowledged_or_it_would_come_for_ever(fleet: AwayFleet) -> None:
    async def way() -> None:
        office = Office(fleet)
        for topic, payload in (("hy/v1/a/up/state", b"1"), ("x", b"2"), ("hy/v1/a/up/told", b"3")):
            office.take(topic, payload)
        await office.drained()
        assert sorted(office.acked) == [b"1", b"2", b"3"]

    asyncio.run(way())
    assert fleet.ids() == []


@pytest.mark.parametrize("kind", [one for one in KINDS if one != "told"])
def test_what_is_too_large_does_not_wait_in_memory(fleet: AwayFleet, kind: str) -> None:
    """The inbox is bounded in messages: 20,000 of 256 KB each would be 5 GB."""

    async def way() -> None:
        office = Office(fleet)
        office.take(f"hy/v1/a/up/{kind}", b" " * bytes_max(kind))
        assert len(office.ingest) == 1
        office.take(f"hy/v1/b/up/{kind}", b" " * (bytes_max(kind) + 1))
        assert len(office.ingest) == 1
        assert len(office.acked[-1]) == bytes_max(kind) + 1

    asyncio.run(way())


def test_the_own_message_is_nobody_s(fleet: AwayFleet) -> None:
    async def way() -> None:
        office = Office(fleet)
        office.take("hy/v1/fleet/up/state", b'{"online": true}')
        await office.drained()
        assert (office.own, len(office.acked)) == (1, 1)

    asyncio.run(way())
    assert fleet.ids() == []


def test_while_the_store_is_away_nothing_is_acknowledged_and_the_end_is_not_held_up(
    fleet: AwayFleet,
) -> None:
    fleet.away = 1000

    async def way() -> None:
        office = Office(fleet)
        office.take("hy/v1/a/up/state", b'{"online": true}')
        async with asyncio.timeout(10):
            await office.drained()
        assert office.acked == []

    asyncio.run(way())


def test_what_could_not_be_stored_is_stored_when_the_store_is_back(
    fleet: AwayFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud.fleet.ingest._AGAIN_S", 0.01)
    fleet.away = 2

    async def way() -> None:
        office = Office(fleet)
        stored = asyncio.Event()
        office.ingest.take(Delivery("hy/v1/a/up/state", b'{"online": true}', stored.set))
        running = asyncio.create_task(office.ingest.run())
        async with asyncio.timeout(10):
            await stored.wait()
        office.ingest.drain()
        await running

    asyncio.run(way())
    assert fleet.ids() == ["a"]


def test_a_quarantine_ends_though_nobody_says_anything(
    fleet: AwayFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud.fleet.ingest._IDLE_S", 0.01)

    async def way() -> None:
        office = Office(fleet)
        office.take("hy/v1/a/up/state", b'{"online": true}')
        await office.drained()
        fleet.quarantine("a", "bench", 50.0, "op", 10.0)  # over by the office's clock
        again = Office(fleet)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        record = fleet.record

        def told(batch: Sequence[Any], now: float) -> Recorded:
            found = record(batch, now)
            if found.returned:
                loop.call_soon_threadsafe(ended.set)
            return found

        monkeypatch.setattr(fleet, "record", told)
        running = asyncio.create_task(again.ingest.run())
        async with asyncio.timeout(10):
            await ended.wait()
        again.ingest.drain()
        await running

    asyncio.run(way())
    assert fleet.device("a").quarantine is None
