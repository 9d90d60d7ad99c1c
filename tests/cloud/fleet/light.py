"""Devices without models on a thread of their own, as company for a real fleet process."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cloud.broker.launch import BrokerAddress
from simulations.light_devices.behaviour import Behaviour
from simulations.light_devices.device import LightDevice, Version
from simulations.light_devices.fleet import LightFleet

MODEL = "m"
OLD, NEW = Version("1.0.0", "a" * 64), Version("1.1.0", "b" * 64)


@contextmanager
def light_devices(
    broker: BrokerAddress,
    count: int,
    behaviours: Mapping[str, Behaviour] | None = None,
    *,
    samples_per_s: float = 100.0,
    interval_s: float = 0.2,
) -> Iterator[list[LightDevice]]:
    """All connected; they report until the block ends."""
    devices = [
        LightDevice(
            f"d{number:04}", MODEL, OLD, behaviours or {}, seed=number, samples_per_s=samples_per_s
        )
        for number in range(count)
    ]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="light-devices")
    thread.start()
    fleet = LightFleet(broker.host, broker.port, devices)
    try:
        asyncio.run_coroutine_threadsafe(fleet.connect(), loop).result(30)
        reporting = asyncio.run_coroutine_threadsafe(fleet.report(interval_s), loop)
        try:
            yield devices
        finally:
            reporting.cancel()
            loop.call_soon_threadsafe(fleet.leave)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(asyncio.sleep(0))  # transports that close
        loop.close()
