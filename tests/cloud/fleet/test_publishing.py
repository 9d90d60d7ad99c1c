"""From the store to the broker: at least once, whatever the broker says and whenever the link goes."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from cloud.fleet.asks import Asks
from cloud.fleet.broker_memory import LOOK_S
from cloud.fleet.desired_state import Desired
from cloud.fleet.device_settings import DeviceSettings
from cloud.fleet.devices import Fleet
from cloud.fleet.heard import PresenceChange
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.publishing import Publishing
from cloud.fleet.store.database import FleetDatabase
from shared.errors import DeadlineMissed, Disconnected, Overloaded
from shared.fleet.asking import Ask, Told
from shared.fleet.desired import DesiredModel, Section

NAMES = [f"d{number}" for number in range(5)]


class FakeLink:
    """Answers each publish with what `says` gives for its topic; None: the link goes instead."""

    def __init__(self, says: Callable[[str], int | None] = lambda _: 0, window: int = 2) -> None:
        self.says, self.window = says, window
        self.up = True
        self.sent: list[tuple[str, bool]] = []
        self.widest = 0
        self._waiting = 0

    @property
    def room(self) -> int:
        return self.window - self._waiting if self.up else 0

    def publish(
        self, topic: str, payload: bytes, *, expiry_s: int | None = None, retain: bool = False
    ) -> "asyncio.Future[int]":
        if not self.up:
            raise Disconnected("gone")
        if not self.room:
            raise Overloaded("full")
        loop = asyncio.get_running_loop()
        word: asyncio.Future[int] = loop.create_future()
        self.sent.append((topic, retain))
        self._waiting += 1
        self.widest = max(self.widest, self._waiting)
        loop.call_soon(self._answer, topic, word)
        return word

    def _answer(self, topic: str, word: "asyncio.Future[int]") -> None:
        self._waiting -= 1
        code = self.says(topic) if self.up else None
        if code is None:
            self.up = False
            word.set_exception(Disconnected("gone"))
        else:
            word.set_result(code)


class TellingFleet(Fleet):
    """Says when it was asked what is unpublished, and told what is published."""

    tells: Callable[[], object] = staticmethod(lambda: None)
    marks = 0

    def unpublished(self, limit: int = 1000) -> list[tuple[str, Desired]]:
        found = super().unpublished(limit)
        self.tells()
        return found

    def published(self, done: Sequence[tuple[str, Section, int]]) -> None:
        super().published(done)
        self.marks += 1
        self.tells()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[TellingFleet]:
    """With five devices, each ordered to another version."""
    database = FleetDatabase(f"sqlite:///{tmp_path / 'fleet.db'}")
    database.open()
    made = TellingFleet(database, DeviceSettings(needs_enrolment=False))
    made.record([(name, PresenceChange(online=True)) for name in NAMES], 1.0)
    order = DesiredModel(generation=1, model="m", version="1.1.0", manifest_sha256="b" * 64)
    made.order([(name, order) for name in NAMES], 1.0)
    yield made
    database.close()


def unpublished(fleet: TellingFleet) -> list[str]:
    return [device for device, _ in Fleet.unpublished(fleet)]


async def published(
    fleet: TellingFleet, link: FakeLink, enough: Callable[[], bool], *, anew: bool = False
) -> None:
    """What is done until `enough`, looked at after each round; `anew`: the link has just come."""
    publishing = Publishing(fleet, FleetMetrics(CollectorRegistry()))
    publishing.through(link)
    loop, round_ends = asyncio.get_running_loop(), asyncio.Event()
    fleet.tells = lambda: loop.call_soon_threadsafe(round_ends.set)
    running = asyncio.create_task(publishing.run())
    (publishing.link_up if anew else publishing.kick)()
    async with asyncio.timeout(20):
        while not enough():
            await round_ends.wait()
            round_ends.clear()
    fleet.tells = lambda: None
    publishing.drain()
    await running


def test_everything_is_retained_within_the_window_and_marked(fleet: TellingFleet) -> None:
    link = FakeLink()
    asyncio.run(published(fleet, link, lambda: not unpublished(fleet)))
    assert sorted(topic for topic, _ in link.sent) == [
        f"hy/v1/{name}/down/desired/model" for name in NAMES
    ]
    assert all(retain for _, retain in link.sent)
    assert link.widest == 2
    assert fleet.marks == 1  # a full window is waited for, not given up on


def test_what_the_broker_refuses_is_not_marked_and_holds_up_nobody(fleet: TellingFleet) -> None:
    link = FakeLink(lambda topic: 0x97 if "/d1/" in topic else 0)
    asyncio.run(published(fleet, link, lambda: unpublished(fleet) == ["d1"]))
    assert link.up


def test_a_link_that_goes_leaves_the_rest_unpublished(fleet: TellingFleet) -> None:
    link = FakeLink(lambda topic: None if "/d3/" in topic else 0)
    asyncio.run(published(fleet, link, lambda: unpublished(fleet) == ["d3", "d4"]))
    assert unpublished(fleet) == ["d3", "d4"]
    again = FakeLink()
    asyncio.run(published(fleet, again, lambda: not unpublished(fleet)))
    assert len(again.sent) == 2


def test_a_broker_that_forgot_has_everything_before_it_has_the_mark(
    fleet: TellingFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud.fleet.broker_memory.LOOK_S", 0.01)
    assert LOOK_S > 1
    for device, order in fleet.unpublished():
        fleet.published([(device, "model", order.generation)])
    link = FakeLink()

    asyncio.run(published(fleet, link, lambda: len(link.sent) == 6, anew=True))
    assert link.sent[-1] == ("hy/v1/fleet/up/state", True)
    assert len(link.sent) == len(NAMES) + 1


def asked(
    way: Callable[[Asks, list[bytes]], Coroutine[Any, Any, None]], waiting_max: int = 2
) -> None:
    async def ask() -> None:
        sent: list[bytes] = []

        def publish(_: str, payload: bytes) -> "asyncio.Future[int]":
            sent.append(payload)
            word: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            word.set_result(0)
            return word

        await way(Asks(publish, waiting_max, 0.05), sent)

    asyncio.run(ask())


def test_an_answer_is_taken_of_the_device_that_was_asked_alone() -> None:
    async def way(asks: Asks, sent: list[bytes]) -> None:
        waits = asyncio.create_task(asks.logs("a", 5))
        await asyncio.sleep(0)
        ask = Ask.model_validate_json(sent[0])
        asks.told("b", Told(id=ask.id, lines=("not mine",)))
        asks.told("a", Told(id="0" * 16, lines=("another",)))
        assert asks.awaits("a")
        assert not asks.awaits("b")
        asks.told("a", Told(id=ask.id, lines=("mine",)))
        assert (await waits).lines == ("mine",)
        assert not asks.awaits("a")

    asked(way)


def test_who_does_not_answer_is_not_waited_for() -> None:
    async def way(asks: Asks, _: list[bytes]) -> None:
        with pytest.raises(DeadlineMissed, match="a did not answer"):
            await asks.logs("a", 5)
        assert not asks.awaits("a")

    asked(way)


def test_so_many_wait_and_no_more() -> None:
    async def way(asks: Asks, _: list[bytes]) -> None:
        waits = [asyncio.create_task(asks.logs(name, 5)) for name in "ab"]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await asks.logs("c", 5)
        await asyncio.wait(waits)
        assert all(isinstance(one.exception(), DeadlineMissed) for one in waits)

    asked(way)
