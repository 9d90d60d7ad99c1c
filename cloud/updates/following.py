"""Follow the registry: look, fetch, load, say so.

What runs goes on while the registry is away, refuses, or gives something that does not check out.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

from cloud.registry.client.client import RegistryClient
from cloud.registry.client.fetch import fetch_bundle
from cloud.registry.documents import Runner, StoredFile
from cloud.serving.served import Served
from cloud.updates.bundles import Bundles, partial_name
from cloud.updates.settings import RegistryModels
from shared.bundle.files import MANIFEST
from shared.errors import HybridgeError, Unavailable, Unknown
from shared.fetching.session import credentials
from shared.logs import OncePer
from shared.trust.releases import ReleaseTarget, Trusted
from shared.trust.store import TrustStore

log = logging.getLogger(__name__)

_LOG_PERIOD_S: Final = 600.0
_FIRST_S: Final = 2.0  # between looks while a model has never been here


class Serving(Protocol):
    """What this asks of the pool."""

    def versions(self, name: str) -> tuple[str, ...]: ...

    async def load(self, name: str, version: str | None = None) -> Served: ...

    async def unload(self, name: str, version: str | None = None) -> None: ...


class Following:
    def __init__(
        self,
        settings: RegistryModels,
        bundles: Bundles,
        pool: Serving,
        name: str,
        rng: random.Random,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`name`: this worker's. Raises `Malformed` when the root or the key cannot be read."""
        self._settings, self._bundles, self._pool = settings, bundles, pool
        self._name, self._rng, self._clock = name, rng, clock
        self._trust = TrustStore(bundles.trust, settings.read_root())
        self._serves: dict[str, Served] = {}
        self._once = OncePer(_LOG_PERIOD_S)

    @property
    def why_not_ready(self) -> str | None:
        """None once every model is served in some release."""
        missing = [name for name in self._settings.models if name not in self._serves]
        return f"waiting for the registry: {', '.join(missing)}" if missing else None

    async def prepare(self) -> None:
        """Make the pool's folder. Raises `Unavailable`."""
        await asyncio.to_thread(self._bundles.make)

    async def start(self) -> None:
        """Serve what is here already, without asking anybody."""
        for model in self._settings.models:
            try:
                await self._serve(await self._trust.load(model, self._clock()), None)
            except HybridgeError as error:
                log.info("no_release_here", extra={"model": model, "why": str(error)[:300]})

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            key = credentials(self._settings).get("X-API-Key")
            async with RegistryClient(self._settings.urls, key, rng=self._rng) as registry:
                for model in self._settings.models:
                    await self._look(registry, model)
            poll_s = self._settings.poll_s
            pause_s = min(_FIRST_S, poll_s) if self.why_not_ready else poll_s
            await asyncio.sleep(pause_s * self._rng.uniform(0.9, 1.1))

    async def _look(self, registry: RegistryClient, model: str) -> None:
        try:
            trusted = await self._trust.refresh(registry.trust_file, model, self._clock())
            if trusted.stale is not None:
                raise Unavailable(trusted.stale)
            await self._serve(trusted, registry)
        except HybridgeError as error:
            held_back = self._once.admits(model, asyncio.get_running_loop().time())
            if held_back is not None:
                why = {"model": model, "why": str(error)[:500], "more_since_last": held_back}
                log.warning("registry_gave_nothing", extra=why)

    async def _serve(self, trusted: Trusted, registry: RegistryClient | None) -> None:
        """Have the newest release answer; versions that are released no more answer no more."""
        model, release = trusted.model, trusted.newest
        if release is None:
            raise Unknown(f"{model}: nothing is released")
        served = self._serves.get(model)
        if served is None or served.version != release.version:
            await self._bring(release, registry)
            served = self._serves[model] = await self._pool.load(model, release.version)
            log.info("release_served", extra={"model": model, "version": release.version})
        released = [one.version for one in trusted.releases]
        for version in self._pool.versions(model):
            if version not in released:
                await self._pool.unload(model, version)
        await asyncio.to_thread(self._bundles.prune, model, released[: self._settings.kept])
        if registry is not None:
            await registry.report_runner(
                Runner(
                    name=self._name, model=model, version=release.version,
                    variant=served.model.variant, seen_at=self._clock().timestamp(),
                )
            )  # fmt: skip

    async def _bring(self, release: ReleaseTarget, registry: RegistryClient | None) -> None:
        """Have it on disk. Raises `Unavailable` where it is not and nobody may be asked."""
        async with self._bundles.alone():
            if await asyncio.to_thread(self._bundles.has, release):
                return
            if registry is None:
                raise Unavailable(f"{release.model} {release.version}: is not here yet")
            place = self._bundles.folder / partial_name(release)
            manifest = StoredFile(
                path=MANIFEST, sha256=release.manifest_sha256, bytes=release.manifest_bytes
            )
            await fetch_bundle(registry, manifest, place, lambda _: None)
            await asyncio.to_thread(self._bundles.take, release, place)
