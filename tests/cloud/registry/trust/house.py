"""A registry's trust on a real catalog (SQLite) and a real artifact store, with keys in files."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.store.database import RegistryDatabase
from cloud.registry.trust import edits
from cloud.registry.trust.ceremony import initialise
from cloud.registry.trust.edits import Holders
from cloud.registry.trust.keys import load_signer, load_signers
from cloud.registry.trust.repository import Prepared, Repository
from cloud.registry.trust.settings import TrustSettings
from shared.errors import Unknown
from shared.trust.names import bytes_max, model_role, parse_file_name
from shared.trust.store import TrustStore
from shared.trust.tuf_api import CryptoSigner
from tests.shared.trust.site import NOW, manifest_of, stored


class House:
    """`now` is the registry's clock. Each call is one loop's; nothing runs in between."""

    def __init__(self, folder: Path, catalog: Catalog, artifacts: Artifacts) -> None:
        self.folder, self.catalog, self.artifacts = folder, catalog, artifacts
        self.now = NOW
        self.keys = folder / "keys"
        self.ceremony = initialise(self.keys, NOW)
        self.repository = self.restarted()

    def restarted(self, *, release_key: bool = False) -> Repository:
        signers = load_signers(self.ceremony.online, None)
        if release_key:
            release = self.signer("release")
            signers[release.public_key.keyid] = release
        self.repository = Repository(
            TrustSettings(), self.catalog, self.artifacts, self.folder / "trust", signers
        )
        return self.repository

    def signer(self, name: str) -> CryptoSigner:
        return load_signer(self.keys / f"{name}.pem", None)

    def set_up(self, *models: str) -> None:
        """The first root and targets, and these models delegated to the release key."""
        self.hand_in({"root": self.ceremony.root, "targets": self.ceremony.targets})
        if models:
            self.hand_in({"targets": self.delegated(*models)})

    def delegated(self, *models: str, to: Holders | None = None) -> bytes:
        holders = to or Holders((self.signer("release").public_key,))
        targets = edits.with_delegation(
            self.file("targets"), dict.fromkeys(models, holders), self.now, 365
        )
        return edits.sign(targets, "targets", [self.signer("targets")])

    def hand_in(self, files: Mapping[str, bytes]) -> Prepared:
        async def work() -> Prepared:
            return await self._publish(await self.repository.prepare(files, self.now))

        return asyncio.run(work())

    def release(self, model: str, version: str, metadata: bytes | None = None) -> Prepared:
        manifest = stored(manifest_of(model, version))

        async def work() -> Prepared:
            prepared = await self.repository.prepare_release(
                model, version, manifest, metadata, self.now
            )
            return await self._publish(prepared)

        return asyncio.run(work())

    def retire(self, model: str, version: str, metadata: bytes | None = None) -> Prepared:
        async def work() -> Prepared:
            prepared = await self.repository.prepare_retire(model, version, metadata, self.now)
            return await self._publish(prepared)

        return asyncio.run(work())

    def tick(self) -> Prepared:
        async def work() -> Prepared:
            return await self._publish(await self.repository.prepare_tick(self.now))

        return asyncio.run(work())

    def later(self, days: float) -> None:
        self.now += timedelta(days=days)

    async def _publish(self, prepared: Prepared) -> Prepared:
        if prepared.commands:
            self.catalog.apply_all(prepared.commands, "operator", self.now.timestamp())
            await self.repository.settle(prepared)
        return prepared

    def signed_release(
        self, model: str, version: str, *signers: CryptoSigner, number: int | None = None
    ) -> bytes:
        """As an operator makes it on his own machine, from what is published."""
        role = model_role(model)
        try:
            before = self.file(role)
        except Unknown:
            before = None
        content = edits.with_release(
            before, model, version, stored(manifest_of(model, version)), self.now, 365
        )
        return edits.sign(content, role, signers or [self.signer("release")])

    def file(self, role: str, version: int | None = None) -> bytes:
        found = self.catalog.trust_file(role, version)
        return asyncio.run(self.artifacts.read(found.sha256, bytes_max(role)))

    async def fetch(self, name: str, limit: int) -> bytes | None:
        """As `GET /tuf/{name}` answers."""
        role, version = parse_file_name(name)
        try:
            found = self.catalog.trust_file(role, version)
        except Unknown:
            return None
        return await self.artifacts.read(found.sha256, limit)

    def device(self, name: str = "device") -> TrustStore:
        return TrustStore(self.folder / name, self.ceremony.root)

    def sees(
        self, device: TrustStore, model: str = "fashion", now: datetime | None = None
    ) -> list[str]:
        trusted = asyncio.run(device.refresh(self.fetch, model, now or self.now))
        return [release.version for release in trusted.releases]


@contextmanager
def house(folder: Path) -> Iterator[House]:
    database = RegistryDatabase(f"sqlite:///{folder / 'registry.db'}")
    database.open()
    try:
        yield House(folder, Catalog(database), Artifacts(ArtifactSettings(), folder))
    finally:
        database.close()
