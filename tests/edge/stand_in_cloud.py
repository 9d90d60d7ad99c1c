"""A whole agent in this process on a real broker, and a stand-in cloud that answers as told."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloud.broker.launch import BrokerAddress
from edge.agent import Agent
from edge.answers import Sample
from edge.config import Config
from edge.inference.slot import Slot, open_slot
from edge.journal.journal import Journal
from edge.journal.writes import Bounds
from edge.telemetry.counters import Counters
from shared import topics
from shared.ids import DeviceId
from shared.mqtt.link import Delivery, Link
from shared.mqtt.settings import LinkSettings
from shared.new_ids import new_sample_id
from shared.wire.envelope import (
    CloudAnswer,
    Downlink,
    Escalation,
    Refusal,
    RefusalCode,
    pack_downlink,
    unpack_escalation,
)

WAIT_S = 10.0
"""Deadline of every wait; none of them is a pause."""


def a_sample(image: NDArray[np.uint8], position: str = "") -> Sample:
    return Sample(
        new_sample_id(), image, time.time(), time.monotonic(), origin="test", position=position
    )


def says(e: Escalation, label: int = 2) -> CloudAnswer:
    return CloudAnswer(e.id, "tiny-cloud", "9.0.0", np.eye(3, dtype=np.float32)[label], 0.0, 0.0)


def refuses(e: Escalation, code: RefusalCode, retry_after_ms: int | None = None) -> Refusal:
    return Refusal(e.id, code, "because", retry_after_ms)


@dataclass
class StandIn:
    """What `reply` returns goes back; bytes go as they are."""

    link: Link
    reply: Callable[[Escalation], list[Downlink | bytes]]
    got: list[Escalation] = field(default_factory=list)

    def receive(self, delivery: Delivery) -> None:
        e = unpack_escalation(delivery.payload)
        self.got.append(e)
        for back in self.reply(e):
            message = back if isinstance(back, bytes) else pack_downlink(back)
            self.link.publish(topics.answers(topics.device_of_escalation(delivery.topic)), message)
        delivery.ack()


@asynccontextmanager
async def cloud(
    broker: BrokerAddress,
    reply: Callable[[Escalation], list[Downlink | bytes]] = lambda e: [says(e)],
    name: str = "worker",
) -> AsyncIterator[StandIn]:
    up = asyncio.Event()
    link = Link(
        LinkSettings(broker.host, broker.port, name, session_expiry_s=0, window=1000),
        subscriptions=(topics.ESCALATIONS_SHARED,),
        on_delivery=lambda delivery: stand_in.receive(delivery),  # noqa: PLW0108  made below
        on_up=lambda _: up.set(),
        on_down=lambda: None,
    )
    stand_in = StandIn(link, reply)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as parts:
        parts.create_task(link.run())
        await up.wait()
        yield stand_in
        link.drain()


def config(state_dir: Path, broker: BrokerAddress | None, **changes: Any) -> Config:
    url = f"mqtt://{broker.host}:{broker.port}" if broker else "mqtt://127.0.0.1:1"
    uplink = {"url": url, "answer_timeout_s": 1.0, "backoff_s_min": 0.01, "backoff_s_max": 0.1}
    tree: dict[str, Any] = {
        "device_id": state_dir.name, "state_dir": state_dir, "bundle": state_dir.parent / "bundle",
        "uplink": uplink, "routing": {"audit_share": 0.0},
    }  # fmt: skip
    return Config.model_validate(tree | changes)


@asynccontextmanager
async def agent(
    settings: Config,
    slot: Slot | None = None,
    joins: Callable[[Agent, Counters], Awaitable[None]] | None = None,
) -> AsyncIterator[Agent]:
    """Its `_journal` may be looked at. `joins` is done before it runs."""
    own = open_slot(settings.bundle, "auto", settings.state_dir) if slot is None else slot
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    journal = Journal(
        settings.state_dir / "state.db", Bounds(settings.answers.kept_max),
        gap_s_max=settings.deadlines.asynchronous_s / 2,
    )  # fmt: skip
    counters = Counters()
    it = Agent(settings, own, journal, counters, random.Random(1))
    if joins is not None:
        await joins(it, counters)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as parts:
        writing = parts.create_task(journal.run())
        linking = parts.create_task(it.uplink.run()) if it.uplink is not None else None
        try:
            yield it
        finally:
            it.drain()
            if it.uplink is not None and linking is not None:
                await it.uplink.drain()
                await linking
            journal.drain()
            await writing
            own.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run, without pausing it, until the condition holds."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  conditions of many kinds
            await asyncio.sleep(0)


def device(settings: Config) -> DeviceId:
    return DeviceId(settings.device_id)
