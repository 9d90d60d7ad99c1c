"""All connections of one process, and their telemetry."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from simulations.light_devices.connection import Connection
from simulations.light_devices.device import LightDevice

CONNECTS_AT_ONCE = 50


class LightFleet:
    def __init__(self, host: str, port: int, devices: Sequence[LightDevice]) -> None:
        self._host, self._port, self._devices = host, port, devices
        self.connections: list[Connection] = []

    async def connect(self) -> None:
        """All of them, and their first reports are acknowledged."""
        loop = asyncio.get_running_loop()
        for at in range(0, len(self._devices), CONNECTS_AT_ONCE):
            made = await asyncio.gather(*(
                loop.create_connection(partial(Connection, device), self._host, self._port)
                for device in self._devices[at : at + CONNECTS_AT_ONCE]
            ))  # fmt: skip
            connections = [connection for _, connection in made]
            await asyncio.gather(*(connection.ready for connection in connections))
            await asyncio.gather(*(connection.settled.wait() for connection in connections))
            self.connections += connections

    async def report(self, interval_s: float) -> None:
        """For ever: each device every `interval_s` seconds, evenly spread."""
        count = max(len(self.connections), 1)
        due = time.monotonic()
        while True:
            for connection in self.connections:
                due += interval_s / count
                pause = due - time.monotonic()
                if pause > 0:
                    await asyncio.sleep(pause)
                elif pause < -interval_s:
                    due = time.monotonic()  # the broker is behind; a burst would not help it
                if connection.unacknowledged == 0:
                    connection.send([connection.device.telemetry(time.time(), interval_s)])

    async def report_once(self) -> None:
        """Everybody at once; acknowledged when it returns."""
        for connection in self.connections:
            connection.send([connection.device.telemetry(time.time(), 1.0)])
        await asyncio.gather(*(connection.settled.wait() for connection in self.connections))

    def leave(self) -> None:
        for connection in self.connections:
            connection.leave()
