"""The devices' process, or the echo's: `python -m simulations.serve_bench.mqtt_load`, JSON on stdin."""

import asyncio
import json
import sys
import time
from base64 import b64decode
from typing import Final, TypeVar

import numpy as np
import uvloop

from simulations.serve_bench.mqtt_clients import Client, Device, Echo
from simulations.serve_bench.results import MqttRun

WARM_UP_S: Final = 1.0
_DRAIN_S: Final = 10.0
_READY_S: Final = 20.0
T = TypeVar("T", bound=Client)


async def _connected(one: T, host: str, port: int) -> T:
    async with asyncio.timeout(_READY_S):
        await asyncio.get_running_loop().create_connection(lambda: one, host, port)
        await one.ready
    return one


class _Load:
    """The same devices, first with full windows, then paced."""

    def __init__(self) -> None:
        self._took_s: list[float] = []
        self._devices: list[Device] = []
        self._idle = asyncio.Event()

    async def run(self, order: dict[str, object]) -> MqttRun:
        host, port = str(order["host"]), int(str(order["port"]))
        escalation = b64decode(str(order["escalation"]))
        for number in range(int(str(order["devices"]))):
            device = Device(f"bench-{number}", escalation, self._answered)
            self._devices.append(await _connected(device, host, port))
        seconds = float(str(order["seconds"]))
        rate = await self._full(int(str(order["window"])), seconds)
        took_ms = np.array(await self._paced(float(str(order["per_second"])), seconds)) * 1e3
        for device in self._devices:
            device.leave()
        p50, p99 = np.percentile(took_ms, (50, 99))
        return MqttRun(per_second=rate, p50_ms=float(p50), p99_ms=float(p99))

    def _answered(self, took_s: float) -> None:
        self._took_s.append(took_s)
        if not any(device.under_way for device in self._devices):
            self._idle.set()

    async def _full(self, window: int, seconds: float) -> float:
        for device in self._devices:
            device.window = window
            device.fill()
        await asyncio.sleep(WARM_UP_S)
        before, began = len(self._took_s), time.perf_counter()
        await asyncio.sleep(seconds)
        rate = (len(self._took_s) - before) / (time.perf_counter() - began)
        for device in self._devices:
            device.window = 0
        await self._drained()
        return rate

    async def _paced(self, per_second: float, seconds: float) -> list[float]:
        self._took_s.clear()
        began = time.perf_counter()
        for number in range(round(per_second * seconds)):
            due = began + number / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._devices[number % len(self._devices)].send()
        await self._drained()
        return self._took_s

    async def _drained(self) -> None:
        self._idle.clear()
        if any(device.under_way for device in self._devices):
            async with asyncio.timeout(_DRAIN_S):
                await self._idle.wait()


async def _echo(order: dict[str, object]) -> None:
    await _connected(Echo(), str(order["host"]), int(str(order["port"])))
    print("ready", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Print what was found as one JSON line; as an echo, go on until SIGTERM."""
    order = json.loads(sys.stdin.readline())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if order.get("echo"):
            runner.run(_echo(order))
        else:
            print(runner.run(_Load().run(order)).model_dump_json())


if __name__ == "__main__":
    main()
