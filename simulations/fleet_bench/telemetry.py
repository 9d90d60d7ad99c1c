"""Telemetry reports a second: taken by the fleet, against the same ones only acknowledged.

All devices report as soon as the report before is acknowledged. The floor is a process that does
nothing but acknowledge, behind the same broker in the same minute. Where the ratio is about 1, the
devices' own process or the broker is the bottleneck, and not who subscribes.
"""

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median

from simulations.fleet_bench.floor import acknowledging
from simulations.fleet_bench.standing import Standing
from simulations.light_devices.fleet import LightFleet

Seen = Callable[[], bool]
_ROUND_S = 4.0


@dataclass(frozen=True, slots=True)
class Telemetry:
    received_per_s: float
    """Off the broker: those stored, and those that a newer one of their device replaced meanwhile."""
    stored_per_s: float
    """Parsed, stored and told to rollouts."""
    floor_per_s: float
    report_bytes: int

    @property
    def ratio(self) -> float:
        return self.received_per_s / self.floor_per_s


async def measure(
    devices: LightFleet, broker: Standing, fleet: Callable[[], AsyncIterator[Standing]], rounds: int
) -> Telemetry:
    """In turn: the fleet is stopped while the floor is measured, and the other way round."""
    received, stored, floor = [], [], []
    with_fleet = asynccontextmanager(fleet)
    for _ in range(rounds):
        async with with_fleet() as standing:
            await _until_quiet(standing.url)
            both = await _rate(devices, partial(_counts, standing.url))
            received.append(sum(both))
            stored.append(both[0])
        with acknowledging(broker.address) as count:
            floor.append((await _rate(devices, lambda: (count(), 0.0)))[0])
    size = len(devices.connections[0].device.telemetry(time.time(), 30).payload)
    return Telemetry(median(received), median(stored), median(floor), size)


async def _until_quiet(url: str) -> None:
    """What the broker had retained for it is stored."""
    seen = -1.0
    while (now := await asyncio.to_thread(_messages, url)) != seen or not now:
        seen = now
        await asyncio.sleep(1.0)


def _messages(url: str) -> float:
    kinds = ("state", "reported/model", "reported/profile", "reported/inventory")
    return sum(sample(url, f'hybridge_fleet_messages_total{{kind="{kind}"}}') for kind in kinds)


def taken(url: str) -> float:
    """Telemetry that the fleet has taken, by its own count."""
    return sample(url, 'hybridge_fleet_messages_total{kind="tel"}')


def _counts(url: str) -> tuple[float, float]:
    return taken(url), sample(url, 'hybridge_fleet_messages_refused_total{reason="superseded"}')


def sample(url: str, name: str) -> float:
    """Of /metrics; 0 for one that is not there yet."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:  # noqa: S310  our own
        for line in answer.read().decode().splitlines():
            if line.rpartition(" ")[0] == name:
                return float(line.rpartition(" ")[2])
    return 0.0


async def _rate(
    devices: LightFleet, counts: Callable[[], tuple[float, float]]
) -> tuple[float, float]:
    """Both counts a second: a second to settle, then `_ROUND_S`."""
    reporting = asyncio.create_task(_without_end(devices))
    await asyncio.sleep(1.0)
    before, began = await asyncio.to_thread(counts), time.monotonic()
    await asyncio.sleep(_ROUND_S)
    after, ended = await asyncio.to_thread(counts), time.monotonic()
    reporting.cancel()
    await asyncio.wait({reporting})
    await asyncio.gather(*(one.settled.wait() for one in devices.connections))
    took_s = ended - began
    return (after[0] - before[0]) / took_s, (after[1] - before[1]) / took_s


async def _without_end(devices: LightFleet) -> None:
    while True:
        await devices.report_once()
