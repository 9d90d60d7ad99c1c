"""References of versions, from the registry: asked for once each, and again later where it is away."""

import asyncio
import random
from collections.abc import Iterable
from typing import Final

from cloud.fleet.settings import RegistryAsk
from cloud.monitoring.drift.reference import Reference, of_manifest, without
from cloud.monitoring.drift.tracks import Of
from cloud.registry.client.client import RegistryClient
from cloud.registry.client.credentials import credentials
from cloud.registry.client.fetch import fetch_manifest
from cloud.registry.client.settings import ClientSettings
from shared.backoff import pause_s
from shared.errors import HybridgeError, Unknown

_PATIENCE_S: Final = 5.0
_AGAIN_S: Final = 5.0
_AGAIN_S_MAX: Final = 300.0
_FAILURES_KEPT: Final = 1_000


class References:
    """`of` until it gives one; bounded in what it remembers of failures."""

    def __init__(self, settings: RegistryAsk | None, rng: random.Random) -> None:
        self._settings, self._rng = settings, rng
        self._failures: dict[Of, tuple[int, float]] = {}
        """How often it failed, and when to try again."""

    def due(self, wanted: Iterable[Of], now: float) -> list[Of]:
        """Those to ask for now."""
        return [of for of in wanted if self._failures.get(of, (0, 0.0))[1] <= now]

    async def of(self, version: Of, now: float) -> Reference:
        """From its manifest; without features where there is no registry, or no such version in it:
        then accuracy, missing inputs and silence are all that is watched.

        Raises `HybridgeError` where the registry does not answer; `due` says when to ask again.
        """
        if self._settings is None:
            return without(*version)
        try:
            found = await self._ask(self._settings, version)
        except Unknown:
            found = without(*version)
        except HybridgeError:
            count = self._failures.pop(version, (0, 0.0))[0] + 1
            pause = pause_s(count, _AGAIN_S, _AGAIN_S_MAX, self._rng)
            self._failures[version] = (count, now + max(1.0, pause))
            while len(self._failures) > _FAILURES_KEPT:
                self._failures.pop(next(iter(self._failures)))
            raise
        self._failures.pop(version, None)
        return found

    async def _ask(self, settings: RegistryAsk, version: Of) -> Reference:
        key, tls = await asyncio.to_thread(credentials, settings)
        async with RegistryClient(
            settings.urls, key, ClientSettings(patience_s=_PATIENCE_S), self._rng, tls
        ) as registry:
            found = await registry.version(*version)
            return of_manifest(await fetch_manifest(registry, found))
