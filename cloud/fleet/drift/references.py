"""References of versions, from the registry: asked for once each, and again later where it is away or
does not have the version yet.
"""

import asyncio
import random
from collections.abc import Iterable
from typing import Final

from cloud.fleet.settings import RegistryAsk
from cloud.monitoring.drift.reference import Reference, of_manifest, without
from cloud.monitoring.drift.track import Of
from cloud.registry.client.client import RegistryClient
from cloud.registry.client.credentials import credentials
from cloud.registry.client.fetch import fetch_manifest
from cloud.registry.client.settings import ClientSettings
from shared.backoff import pause_s
from shared.errors import HybridgeError, Unknown

_PATIENCE_S: Final = 5.0
_AGAIN_S: Final = 5.0
_AGAIN_S_MAX: Final = 300.0
_UNKNOWN_S: Final = 3600.0
"""Until a version that the registry did not have is asked for again: somebody may have pushed it."""
_FAILURES_KEPT: Final = 1_000


class References:
    """`of` until it gives one; bounded in what it remembers of failures."""

    def __init__(self, settings: RegistryAsk | None, rng: random.Random) -> None:
        self._settings, self._rng = settings, rng
        self._failures: dict[Of, tuple[int, float]] = {}
        """How often it failed, and when to try again."""
        self._unknown: dict[Of, float] = {}
        """Versions that the registry did not have, and when to ask for them again."""

    def due(self, wanted: Iterable[Of], known: Iterable[Of], now: float) -> list[Of]:
        """Those to ask for now. `known`: versions that have a reference, be it without features; what
        the registry did not have and is not among them is forgotten.
        """
        asked = list(wanted)
        unknown = {of: at for of in known if (at := self._unknown.get(of)) is not None}
        self._unknown = unknown
        asked += [of for of, at in unknown.items() if _is_due(at, now, _UNKNOWN_S)]
        failures = self._failures
        return [
            of for of in asked
            if of not in failures or _is_due(failures[of][1], now, _AGAIN_S_MAX)
        ]  # fmt: skip

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
            self._unknown[version] = now + _UNKNOWN_S
        except HybridgeError:
            count = self._failures.pop(version, (0, 0.0))[0] + 1
            pause = pause_s(count, _AGAIN_S, _AGAIN_S_MAX, self._rng)
            self._failures[version] = (count, now + max(1.0, pause))
            while len(self._failures) > _FAILURES_KEPT:
                self._failures.pop(next(iter(self._failures)))
            raise
        else:
            self._unknown.pop(version, None)
        self._failures.pop(version, None)
        return found

    async def _ask(self, settings: RegistryAsk, version: Of) -> Reference:
        key, tls = await asyncio.to_thread(credentials, settings)
        async with RegistryClient(
            settings.urls, key, ClientSettings(patience_s=_PATIENCE_S), self._rng, tls
        ) as registry:
            found = await registry.version(*version)
            return of_manifest(await fetch_manifest(registry, found))


def _is_due(at: float, now: float, pause_s_max: float) -> bool:
    """What is farther ahead than any pause is from before the clock was set back."""
    return at <= now or at > now + pause_s_max
