"""From an operator's `undo` to the last device that runs the version before, over real MQTT."""

import asyncio
import time
from dataclasses import dataclass
from typing import Literal

from cloud.fleet.client.client import FleetClient
from cloud.rollouts.documents import RolloutStatus, RolloutView
from simulations.fleet_bench.decisions import NEW, OLD, spec
from simulations.fleet_bench.standing import Standing
from simulations.light_devices.fleet import LightFleet

_WITHIN_S = 300.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Rollback:
    devices: int
    forward_s: float
    """From the start to the last device on the new version."""
    back_s: float
    """From the command to the last device on the old one."""
    known_s: float
    """And until the fleet says so."""


async def measure(devices: LightFleet, fleet: Standing) -> Rollback:
    reporting = asyncio.create_task(devices.report(1.0))
    async with FleetClient([fleet.url]) as client:
        made = await client.rollouts.create(spec().model_dump(mode="json"))
        began = time.monotonic()
        started = await client.rollouts.tell("start", made.id, "bench", made.revision)
        await _until_all(devices, NEW.version)
        forward_s = time.monotonic() - began
        began = time.monotonic()
        await _tell(client, "undo", started)
        await _until_all(devices, OLD.version)
        back_s = time.monotonic() - began
        end = began + _WITHIN_S
        while (await client.rollouts.get(made.id)).status is not RolloutStatus.ROLLED_BACK:
            _check(end)
        known_s = time.monotonic() - began
    reporting.cancel()
    await asyncio.wait({reporting})
    return Rollback(len(devices.connections), forward_s, back_s, known_s)


async def _tell(client: FleetClient, verb: Literal["undo"], seen: RolloutView) -> None:
    latest = await client.rollouts.get(seen.id)
    await client.rollouts.tell(verb, latest.id, "bench", latest.revision)


async def _until_all(devices: LightFleet, version: str) -> None:
    end = time.monotonic() + _WITHIN_S
    while any(one.device.runs.version != version for one in devices.connections):
        _check(end)
        await asyncio.sleep(_LOOK_S)


def _check(end: float) -> None:
    if time.monotonic() > end:
        raise TimeoutError(f"not within {_WITHIN_S:g} s; see the fleet's log")
