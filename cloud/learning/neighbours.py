"""The registry and the fleet, asked anew each time: cycles move by the minute."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from cloud.fleet.client.client import FleetClient
from cloud.fleet.client.settings import FleetClientSettings
from cloud.registry.client.client import RegistryClient
from cloud.registry.client.credentials import credentials
from cloud.registry.client.settings import ClientSettings
from shared.fetching.settings import Server

_PATIENCE_S: Final = 10.0


@asynccontextmanager
async def registry_at(server: Server) -> AsyncIterator[RegistryClient]:
    """Raises `Malformed` for a key file or certificate that cannot be read."""
    key, tls = await asyncio.to_thread(credentials, server, "registry.api_key_file")
    settings = ClientSettings(patience_s=_PATIENCE_S)
    async with RegistryClient(server.urls, key, settings, _rng(), tls) as registry:
        yield registry


@asynccontextmanager
async def fleet_at(server: Server) -> AsyncIterator[FleetClient]:
    """Raises as `registry_at`."""
    key, tls = await asyncio.to_thread(credentials, server, "fleet.api_key_file")
    settings = FleetClientSettings(patience_s=_PATIENCE_S)
    async with FleetClient(server.urls, key, settings, _rng(), tls) as fleet:
        yield fleet


def _rng() -> random.Random:
    return random.Random()  # noqa: S311  spreads retries
