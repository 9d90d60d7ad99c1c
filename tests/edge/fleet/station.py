"""A member of a fleet in this process: a whole agent on a real broker, and a region that is a link."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cloud.broker.launch import BrokerAddress
from edge.agent import Agent
from edge.config import Config
from edge.fleet.fleet import Fleet
from edge.fleet.open import open_fleet
from edge.telemetry.counters import Counters
from edge.updates.updates import Updates
from shared import topics
from shared.fleet.desired import DesiredProfile
from shared.fleet.document import Document
from shared.fleet.profile import ProfileSettings, digest
from shared.fleet.reported import ReportedInventory, ReportedModel, ReportedProfile
from shared.fleet.telemetry import Telemetry
from shared.ids import DeviceId
from shared.mqtt.link import Delivery, Link
from shared.mqtt.settings import LinkSettings
from tests.edge.stand_in_cloud import WAIT_S, agent, config

SECTIONS: dict[type[Document], str] = {
    ReportedModel: "model", ReportedProfile: "profile", ReportedInventory: "inventory",
}  # fmt: skip
T = TypeVar("T", bound=Document)


def profile(generation: int, version: int = 1, **settings: Any) -> DesiredProfile:
    it = ProfileSettings.model_validate(settings)
    return DesiredProfile(
        generation=generation, name="camera", version=version, sha256=digest(it), settings=it
    )


def settings(state_dir: Path, broker: BrokerAddress | None, **changes: Any) -> Config:
    return config(state_dir, broker, fleet={"telemetry_s": 3600}, **changes)


@dataclass
class Member:
    agent: Agent
    fleet: Fleet
    counters: Counters


Opens = Callable[[Agent], Updates]


@asynccontextmanager
async def member(its: Config, updates: Opens | None = None) -> AsyncIterator[Member]:
    made: list[Member] = []

    async def joins(it: Agent, counters: Counters) -> None:
        own = None if updates is None else updates(it)
        fleet = await open_fleet(its, it, own, lambda: "abc1", counters, random.Random(2))
        made.append(Member(it, fleet, counters))

    async with agent(its, joins=joins), asyncio.TaskGroup() as tasks:
        (it,) = made
        running = tasks.create_task(it.fleet.run())
        try:
            yield it
        finally:
            it.fleet.drain()
            await running


@dataclass
class Region:
    """Desires, asks, and hears everything that devices say."""

    link: Link
    device: DeviceId
    heard: list[tuple[str, bytes]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, delivery: Delivery) -> None:
        self.heard.append((delivery.topic, delivery.payload))
        delivery.ack()
        self.changed.set()

    async def desires(self, section: str, content: bytes) -> None:
        await self.link.publish(topics.desired(self.device, section), content, retain=True)

    async def asks(self, content: bytes) -> None:
        await self.link.publish(topics.ask(self.device), content)

    def said(self, topic: str) -> list[bytes]:
        return [payload for at, payload in self.heard if at == topic]

    async def hears(self, there: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not there():
                self.changed.clear()
                await self.changed.wait()

    async def hears_of(self, kind: type[T], there: Callable[[T], bool]) -> T:
        """The first report of a kind that is so."""
        found: list[T] = []
        topic = (
            topics.telemetry(self.device) if kind is Telemetry
            else topics.reported(self.device, SECTIONS[kind])
        )  # fmt: skip

        def look() -> bool:
            found[:] = [one for p in self.said(topic) if there(one := kind.from_bytes(p, 2**20))]
            return bool(found)

        await self.hears(look)
        return found[0]


@asynccontextmanager
async def region(broker: BrokerAddress, device: str) -> AsyncIterator[Region]:
    up = asyncio.Event()
    its = DeviceId(device)
    heard = (
        topics.state(its),
        topics.telemetry(its),
        topics.told(its),
        f"hy/v1/{its}/up/reported/+",
    )
    link = Link(
        LinkSettings(broker.host, broker.port, f"region-{device}", session_expiry_s=0),
        subscriptions=heard, on_delivery=lambda delivery: it.receive(delivery),  # noqa: PLW0108  below
        on_up=lambda _: up.set(), on_down=lambda: None,
    )  # fmt: skip
    it = Region(link, its)
    async with asyncio.TaskGroup() as parts:
        parts.create_task(link.run())
        async with asyncio.timeout(WAIT_S):
            await up.wait()
        try:
            yield it
        finally:
            link.drain()
