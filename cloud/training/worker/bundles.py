"""Bundles that a job begins with: from folders that are trusted, or from the registry as released."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, assert_never
from urllib.parse import quote

import aiohttp

from cloud.registry.client.client import RegistryClient
from cloud.registry.client.fetch import fetch_bundle
from cloud.registry.documents import StoredFile
from cloud.training.documents import (
    Distill,
    FineTune,
    Half,
    Prune,
    Quantize,
    Recipe,
    Supervised,
)
from cloud.training.worker.settings import WorkerRegistry
from cloud.updates.bundles import Bundles
from shared.bundle.files import MANIFEST
from shared.bundle.reader import open_bundle
from shared.errors import HybridgeError, Unknown
from shared.fetching.session import credentials, open_session, tls_context
from shared.fetching.transfer import fetch_bytes
from shared.trust.first_fresh import first_fresh
from shared.trust.pinned_root import read_pinned_root
from shared.trust.releases import ReleaseTarget
from shared.trust.store import Fetch, TrustStore

_LOOK_S_MAX: Final = 120.0
_KEPT: Final = 4
"""Versions of a model that stay on disk."""


def wanted(recipe: Recipe) -> tuple[str, ...]:
    """`name@version` of each bundle that the recipe names."""
    match recipe:
        case Distill():
            named: tuple[str | None, ...] = (recipe.teacher,)
        case FineTune():
            named = (recipe.student, recipe.teacher)
        case Prune() | Quantize() | Half():
            named = (recipe.source, recipe.teacher)
        case Supervised():
            named = ()
        case _:
            assert_never(recipe)
    return tuple(dict.fromkeys(one for one in named if one is not None))


def begun_with(recipe: Recipe) -> str | None:
    """`name@version` of the bundle that the recipe makes another of; None: its weights are new."""
    match recipe:
        case FineTune():
            return recipe.student
        case Prune() | Quantize() | Half():
            return recipe.source
        case Supervised() | Distill():
            return None
        case _:
            assert_never(recipe)


class BundleShelf:
    """One process at a time in its folder."""

    def __init__(
        self,
        folders: Sequence[Path],
        registry: WorkerRegistry | None,
        state_dir: Path,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Raises `Malformed` where the registry's root cannot be read."""
        self._folders, self._registry, self._clock = tuple(folders), registry, clock
        self._bundles = Bundles(state_dir)
        self._trust = (
            None
            if registry is None
            else TrustStore(
                self._bundles.trust, read_pinned_root(registry.root, "worker.registry.root")
            )
        )

    async def bring(self, ref: str) -> Path:
        """A folder or `.hyb` file with that very bundle, checked.

        Raises `Unknown` where nobody has it, `NotTrusted`, `Unavailable`.
        """
        name, _, version = ref.partition("@")
        if (found := await asyncio.to_thread(self._in_folders, name, version)) is not None:
            return found
        if self._registry is None or self._trust is None:
            raise Unknown(
                f"{ref} is in none of the worker's bundle folders, and it has no [worker.registry] to "
                "ask; add the one or the other"
            )
        return await self._from_registry(self._registry, self._trust, name, version)

    def _in_folders(self, name: str, version: str) -> Path | None:
        """`NAME`, `NAME-VERSION` or either with `.hyb`, of the version that is wanted."""
        for folder in self._folders:
            for path in (
                folder / f"{name}-{version}", folder / f"{name}-{version}.hyb", folder / name,
                folder / f"{name}.hyb", folder,
            ):  # fmt: skip
                if not (path / MANIFEST).is_file() and not path.is_file():
                    continue
                try:
                    manifest = open_bundle(path).manifest
                except HybridgeError:
                    continue  # another place may have a whole one
                if (manifest.name, manifest.version) == (name, version):
                    return path
        return None

    async def _from_registry(
        self, settings: WorkerRegistry, trust: TrustStore, name: str, version: str
    ) -> Path:
        await asyncio.to_thread(self._bundles.make)
        async with open_session(settings) as session, self._bundles.alone("trust"):
            sources = _sources(settings, session)
            trusted = await first_fresh(trust, sources, name, self._clock, s_max=_LOOK_S_MAX)
        release = trusted.release(version)
        async with self._bundles.alone("bundles"):
            if not await asyncio.to_thread(self._bundles.has, release):
                await self._fetch(settings, release)
        kept = [one.version for one in trusted.releases[:_KEPT]]
        await asyncio.to_thread(self._bundles.prune, name, {*kept, version})
        return self._bundles.of(release)

    async def _fetch(self, settings: WorkerRegistry, release: ReleaseTarget) -> None:
        if not await asyncio.to_thread(self._bundles.was_fetched, release):
            manifest = StoredFile(
                path=MANIFEST, sha256=release.manifest_sha256, bytes=release.manifest_bytes
            )
            async with client(settings) as registry:
                place = self._bundles.fetched(release)
                await fetch_bundle(registry, manifest, place, lambda _: None)
        await asyncio.to_thread(self._bundles.take, release)


def client(settings: WorkerRegistry) -> RegistryClient:
    """Reads files. Raises `Malformed`."""
    key = credentials(settings).get("X-API-Key")
    rng = random.Random()  # noqa: S311  spreads retries
    return RegistryClient(settings.urls, key, rng=rng, tls=tls_context(settings))


def _sources(
    settings: WorkerRegistry, session: aiohttp.ClientSession
) -> Iterator[tuple[str, Fetch]]:
    headers = credentials(settings)
    for url in settings.urls:

        def fetch(name: str, bytes_max: int, url: str = url) -> Awaitable[bytes | None]:
            return fetch_bytes(
                session, f"{url.rstrip('/')}/tuf/{quote(name)}", bytes_max=bytes_max,
                headers=headers, stall_s=settings.stall_s_max,
            )  # fmt: skip

        yield url, fetch
