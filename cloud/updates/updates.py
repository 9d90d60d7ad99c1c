"""Follow the registry: look, fetch, load, say so.

What runs goes on while the registry is away, refuses, or gives something that does not check out.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Final, Protocol
from urllib.parse import quote

import aiohttp

from cloud.registry.client.client import RegistryClient
from cloud.registry.client.fetch import fetch_bundle
from cloud.registry.documents import Runner, StoredFile
from cloud.serving.served import Served
from cloud.updates.bundles import Bundles
from cloud.updates.settings import RegistryModels
from shared.bundle.files import MANIFEST
from shared.errors import HybridgeError, Unavailable, Unknown
from shared.fetching.session import credentials, open_session, tls_context
from shared.fetching.transfer import fetch_bytes
from shared.logs import OncePer
from shared.trust.first_fresh import first_fresh
from shared.trust.releases import ReleaseTarget, Trusted
from shared.trust.store import Fetch, TrustStore

log = logging.getLogger(__name__)

_LOG_PERIOD_S: Final = 600.0
_FIRST_S: Final = 2.0  # between looks while a model has never been here
_LOOK_S_MAX: Final = 120.0  # of one registry's metadata


class Serving(Protocol):
    """What this asks of the pool."""

    def versions(self, name: str) -> tuple[str, ...]: ...

    async def load(self, name: str, version: str | None = None) -> Served: ...

    async def unload(self, name: str, version: str | None = None) -> None: ...


class Updates:
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
        self.served = asyncio.Event()
        """Set once every model is served in some release."""
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
        """Serve what is here already, without asking anybody: the newest that opens."""
        for model in self._settings.models:
            try:
                trusted = await self._trust.load(model, self._clock())
            except HybridgeError as error:
                log.info("no_release_here", extra={"model": model, "why": str(error)[:300]})
                continue
            for release in trusted.releases[: self._settings.kept]:
                try:
                    await self._answer_with(release, None)
                except HybridgeError as error:
                    why = {"model": model, "version": release.version, "why": str(error)[:300]}
                    log.info("release_not_here", extra=why)
                else:
                    break

    async def run(self) -> None:
        """Until cancelled. What goes wrong with an update ends nothing that is served."""
        while True:
            try:
                async with open_session(self._settings) as session, self._client() as registry:
                    for model in self._settings.models:
                        await self._look(session, registry, model)
            except HybridgeError as error:  # its key, or its TLS files, cannot be read now
                self._warn("settings", error)
            poll_s = self._settings.poll_s
            pause_s = min(_FIRST_S, poll_s) if self.why_not_ready else poll_s
            await asyncio.sleep(pause_s * self._rng.uniform(0.9, 1.1))

    def _client(self) -> RegistryClient:
        settings = self._settings
        key = credentials(settings).get("X-API-Key")
        return RegistryClient(settings.urls, key, rng=self._rng, tls=tls_context(settings))

    async def _look(
        self, session: aiohttp.ClientSession, registry: RegistryClient, model: str
    ) -> None:
        try:
            async with self._bundles.alone("trust"):  # its folder has one user at a time
                trusted = await first_fresh(
                    self._trust, self._sources(session), model, self._clock, s_max=_LOOK_S_MAX
                )
            await self._serve(trusted, registry)
        except HybridgeError as error:
            self._warn(model, error)

    def _sources(self, session: aiohttp.ClientSession) -> Iterator[tuple[str, Fetch]]:
        settings, headers = self._settings, credentials(self._settings)
        for url in settings.urls:

            def fetch(name: str, bytes_max: int, url: str = url) -> Awaitable[bytes | None]:
                return fetch_bytes(
                    session, f"{url.rstrip('/')}/tuf/{quote(name)}", bytes_max=bytes_max,
                    headers=headers, stall_s=settings.stall_s_max,
                )  # fmt: skip

            yield url, fetch

    def _warn(self, about: str, error: HybridgeError) -> None:
        held_back = self._once.admits(about, asyncio.get_running_loop().time())
        if held_back is not None:
            why = {"about": about, "why": str(error)[:500], "more_since_last": held_back}
            log.warning("registry_gave_nothing", extra=why)

    async def _serve(self, trusted: Trusted, registry: RegistryClient) -> None:
        """Have the newest release answer; versions that are released no more answer no more."""
        model, release = trusted.model, trusted.newest
        if release is None:
            raise Unknown(f"{model}: nothing is released")
        served = await self._answer_with(release, registry)
        released = [one.version for one in trusted.releases]
        for version in self._pool.versions(model):
            if version not in released:
                await self._pool.unload(model, version)
        await asyncio.to_thread(self._bundles.prune, model, released[: self._settings.kept])
        await registry.report_runner(
            Runner(
                name=self._name, model=model, version=release.version,
                variant=served.model.variant, seen_at=self._clock().timestamp(),
            )
        )  # fmt: skip

    async def _answer_with(self, release: ReleaseTarget, registry: RegistryClient | None) -> Served:
        """`registry`: None asks nobody."""
        model, version = release.model, release.version
        served = self._serves.get(model)
        if served is None or served.version != version:
            await self._bring(release, registry)
            async with self._bundles.alone("loading"):  # a power cut counts once, not for each
                with self._bundles.loading(release):
                    served = self._serves[model] = await self._pool.load(model, version)
                    if self.why_not_ready is None:
                        self.served.set()
            log.info("release_served", extra={"model": model, "version": version})
        return served

    async def _bring(self, release: ReleaseTarget, registry: RegistryClient | None) -> None:
        """Have it on disk. Raises `Unavailable` where it is not and nobody may be asked."""
        async with self._bundles.alone("bundles"):
            if await asyncio.to_thread(self._bundles.has, release):
                return
            if registry is None:
                raise Unavailable(f"{release.model} {release.version}: is not here yet")
            if not await asyncio.to_thread(self._bundles.was_fetched, release):
                manifest = StoredFile(
                    path=MANIFEST, sha256=release.manifest_sha256, bytes=release.manifest_bytes
                )
                place = self._bundles.fetched(release)
                await fetch_bundle(registry, manifest, place, lambda _: None)
            await asyncio.to_thread(self._bundles.take, release)
