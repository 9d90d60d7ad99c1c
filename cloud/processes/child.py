"""One of several serving processes: it ends with its parent, however that one ends."""

import asyncio
import sys
from collections.abc import Callable

from pydantic import SecretStr

from cloud.broker.settings import BrokerSettings
from cloud.config import Config
from cloud.processes.place import Place
from cloud.service import Service


async def run_child(
    config: Config,
    on_ready: Callable[[str, str], None],
    on_signals: Callable[[Service], None],
) -> bool:
    """`config` is the parent's own; what is different for this process comes on stdin."""
    reader = await _stdin()
    place = Place.parse(await reader.readline())
    service = Service(_own(config, place), on_ready, place)
    on_signals(service)
    orphaned = asyncio.create_task(_stop_when_orphaned(reader, service))
    try:
        return await service.run()
    finally:
        orphaned.cancel()


def _own(config: Config, place: Place) -> Config:
    broker = BrokerSettings(kind="url", url=SecretStr(place.broker_url))
    return config.model_copy(update={"broker": broker, "name": f"{config.name}-{place.index}"})


async def _stop_when_orphaned(reader: asyncio.StreamReader, service: Service) -> None:
    await reader.read()  # nothing more is ever written: this is the end of the parent
    service.stop()


async def _stdin() -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader
