"""`make bench-fleet`: exit code 1 when a target is missed. Two minutes.

The devices have no models (`simulations/light_devices`); broker, MQTT, documents, store and the
control process are real, and share this machine with the devices.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

from simulations.broker_bench.process import resident_mb
from simulations.fleet_bench import decisions, rollback, telemetry
from simulations.fleet_bench.decisions import MODEL, OLD
from simulations.fleet_bench.report import DEVICES_SIMULATED, Results, markdown, missed, replaced
from simulations.fleet_bench.standing import Standing, broker, fleet
from simulations.light_devices.device import LightDevice
from simulations.light_devices.fleet import LightFleet

_ONLINE = "hybridge_fleet_devices_online"
_MIB = 1024 * 1024
_WITHIN_S = 120.0


def main() -> int:
    """Measure, print, and say whether every target is met."""
    parser = argparse.ArgumentParser(prog="python -m simulations.fleet_bench", description=__doc__)
    parser.add_argument("--devices", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3, help="of the telemetry")
    parser.add_argument("--without-simulation", action="store_true")
    parser.add_argument("--write", type=Path, help="a Markdown file with the block's markers")
    asked = parser.parse_args()
    results = asyncio.run(
        _measure(asked.devices, asked.rounds, simulates=not asked.without_simulation)
    )
    print(markdown(results))
    if asked.write is not None:
        asked.write.write_text(replaced(asked.write.read_text(), results))
    misses = missed(results)
    for miss in misses:
        print(f"missed: {miss}", file=sys.stderr)
    return 1 if misses else 0


async def _measure(count: int, rounds: int, *, simulates: bool) -> Results:
    decided = decisions.measure(count)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        around = stack.enter_context(broker(folder))
        made = [
            LightDevice(f"d{n:05}", MODEL, OLD, {}, seed=n, samples_per_s=20.0)
            for n in range(count)
        ]
        devices = LightFleet(*around.address, made)
        stack.callback(devices.leave)
        with fleet(folder, around.url) as standing:
            before = resident_mb(standing.pid)
            began = time.monotonic()
            await devices.connect()
            await _until_online(standing.url, count)
            connect_s = time.monotonic() - began
            await devices.report_once()
            await _until_taken(standing.url, count)
            bytes_each = (resident_mb(standing.pid) - before) * _MIB / count
            went = await rollback.measure(devices, standing)

        async def again() -> AsyncIterator[Standing]:
            with fleet(folder, around.url) as standing:
                yield standing

        taken = await telemetry.measure(devices, around, again, rounds)
    simulated_s = _simulated() if simulates else None
    return Results(count, connect_s, bytes_each, taken, decided, went, simulated_s)


def _simulated() -> float:
    """A good version to 100,000 devices, in a process of its own."""
    began = time.monotonic()
    arguments = ["simulate", "good", "--seed", "1", "--devices", str(DEVICES_SIMULATED)]
    subprocess.run(  # noqa: S603  our own command
        [sys.executable, "-m", "cloud.cli", *arguments], check=True, stdout=subprocess.DEVNULL
    )
    return time.monotonic() - began


async def _until_online(url: str, count: int) -> None:
    await _until(lambda: telemetry.sample(url, _ONLINE) >= count)


async def _until_taken(url: str, count: int) -> None:
    await _until(lambda: telemetry.taken(url) >= count)


async def _until(seen: "telemetry.Seen") -> None:
    end = time.monotonic() + _WITHIN_S
    while not await asyncio.to_thread(seen):
        if time.monotonic() > end:
            raise TimeoutError("the fleet does not know all devices; see its log")
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
