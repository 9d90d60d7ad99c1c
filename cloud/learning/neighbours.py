"""The registry and the fleet, asked anew each time: cycles move by the minute."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from ssl import SSLContext
from typing import Final

from cloud.fleet.client.client import FleetClient
from cloud.fleet.client.settings import FleetClientSettings
from cloud.registry.client.answers import OtherAnswers, UnknownCaller
from cloud.registry.client.client import RegistryClient
from cloud.registry.client.credentials import credentials
from cloud.registry.client.settings import ClientSettings
from shared.errors import Malformed, Unavailable
from shared.fetching.settings import Server

_PATIENCE_S: Final = 10.0


@asynccontextmanager
async def registry_at(server: Server) -> AsyncIterator[RegistryClient]:
    """Raises `Unavailable` too while the key file or a certificate cannot be read, whoever shows them is
    not known there, or somebody else answers: keys are changed and proxies deployed anew while cycles
    of days go on.
    """
    key, tls = await _credentials(server, "registry.api_key_file")
    settings = ClientSettings(patience_s=_PATIENCE_S)
    with _known(server, "registry.api_key_file"):
        async with RegistryClient(server.urls, key, settings, _rng(), tls) as registry:
            yield registry


@asynccontextmanager
async def fleet_at(server: Server) -> AsyncIterator[FleetClient]:
    """Raises as `registry_at`."""
    key, tls = await _credentials(server, "fleet.api_key_file")
    settings = FleetClientSettings(patience_s=_PATIENCE_S)
    with _known(server, "fleet.api_key_file"):
        async with FleetClient(server.urls, key, settings, _rng(), tls) as fleet:
            yield fleet


async def _credentials(server: Server, setting: str) -> tuple[str | None, SSLContext | None]:
    try:
        return await asyncio.to_thread(credentials, server, setting)
    except Malformed as error:
        raise Unavailable(str(error)) from error


@contextmanager
def _known(server: Server, setting: str) -> Iterator[None]:
    try:
        yield
    except UnknownCaller as error:
        raise Unavailable(f"{server.urls[0]}: {error}; look at {setting}") from error
    except OtherAnswers as error:
        raise Unavailable(str(error)) from error


def _rng() -> random.Random:
    return random.Random()  # noqa: S311  spreads retries
