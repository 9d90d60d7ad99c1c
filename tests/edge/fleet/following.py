"""A member of a fleet that takes updates from a station."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cloud.broker.launch import BrokerAddress
from edge.agent import Agent
from edge.fleet.open import open_fleet
from edge.fleet.settings import FleetSettings
from edge.inference.slot import Slot, open_slot
from edge.telemetry.counters import Counters
from edge.updates.settings import UpdateSettings
from edge.updates.start import open_active
from edge.updates.updates import Updates
from tests.edge.fleet.station import Member, settings
from tests.edge.stand_in_cloud import agent


@asynccontextmanager
async def following(
    state_dir: Path, broker: BrokerAddress | None, updating: UpdateSettings
) -> AsyncIterator[Member]:
    """Its factory bundle is `bundle` beside the state directory."""
    its = settings(state_dir, broker, updates=updating)
    its = its.model_copy(update={"fleet": FleetSettings.model_construct(telemetry_s=0.05)})

    def opener(path: Path) -> Slot:
        return open_slot(path, "auto", state_dir / "engines")

    await asyncio.to_thread(state_dir.mkdir, exist_ok=True)
    slot = await asyncio.to_thread(open_active, state_dir, its.bundle, opener)
    made: list[tuple[Member, Updates]] = []

    async def joins(it: Agent, counters: Counters) -> None:
        updates = Updates(
            updating, it, state_dir=state_dir, factory=its.bundle, device_id=its.device_id,
            engine="auto", rng=random.Random(1), follows_fleet=True,
        )  # fmt: skip
        fleet = await open_fleet(its, it, updates, lambda: None, counters, random.Random(2))
        made.append((Member(it, fleet, counters), updates))

    async with agent(its, slot, joins), asyncio.TaskGroup() as tasks:
        ((it, updates),) = made
        looking, running = tasks.create_task(updates.run()), tasks.create_task(it.fleet.run())
        try:
            yield it
        finally:
            it.fleet.drain()
            updates.drain()
            await asyncio.gather(looking, running)
    if it.agent.slot is not slot:
        it.agent.slot.close()
