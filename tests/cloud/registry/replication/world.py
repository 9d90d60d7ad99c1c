"""Homes and replicas in one process: real services over real files, started and stopped at will."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.catalog.commands import SetModel
from cloud.registry.client.client import RegistryClient
from cloud.registry.client.settings import ClientSettings
from cloud.registry.config import RegistryConfig, parse
from cloud.registry.documents import Head
from cloud.registry.replication.promotion import Promotion, promote
from cloud.registry.replication.region_status import RegionStatus
from cloud.registry.service import RegistryService
from cloud.registry.store.database import RegistryDatabase
from cloud.registry.trust.ceremony import initialise
from cloud.registry.trust.keys import load_signer
from tests.end_to_end.region import free_port

WAIT_S = 20.0
_QUICK = {"wait_s": 1.0, "pause_s_min": 0.02, "pause_s_max": 0.1, "report_s": 0.05}


@dataclass
class World:
    """Keys of trust, and a port and a folder for each registry."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = self.folder / "keys"
        self.ceremony = initialise(self.keys, datetime.now(UTC))

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports.setdefault(name, free_port())}"

    def config(
        self, name: str, *, follows: tuple[str, ...] = (), peers: tuple[str, ...] = ()
    ) -> RegistryConfig:
        online = self.ceremony.online if name == "home" else self.folder / f"{name}-online"
        self.url(name)
        tree: dict[str, object] = {
            "name": name, "state_dir": str(self.folder / name), "log_level": "debug",
            "api": {"port": self.ports[name]}, "evaluation": {"processes": 0},
            "trust": {"online_keys": str(online)}, "artifacts": {"free_bytes_min": 1},
            "peers": {"urls": [self.url(peer) for peer in peers], "look_s": 0.05, "timeout_s": 1.0},
        }  # fmt: skip
        if follows:
            root = str(self.keys / "1.root.json")
            tree["home"] = {"urls": [self.url(one) for one in follows], "root": root, **_QUICK}
        return parse(tree, "test")

    @asynccontextmanager
    async def running(self, config: RegistryConfig, *, alone: bool = False) -> AsyncIterator[None]:
        ready = asyncio.Event()
        service = RegistryService(config, (), lambda _: ready.set(), alone)
        task = asyncio.create_task(service.run())
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            if task.done():
                task.result()
            yield
        finally:
            service.stop()
            await task

    @asynccontextmanager
    async def home(self, **peers: tuple[str, ...]) -> AsyncIterator[None]:
        """With trust published."""
        async with self.running(self.config("home", **peers), alone=True):
            async with self.client("home") as home:
                if (await home.state()).head.seq == 0:
                    await home.publish_trust("root", json.loads(self.ceremony.root))
                    await home.publish_trust("targets", json.loads(self.ceremony.targets))
            yield

    def client(self, name: str) -> RegistryClient:
        return RegistryClient([self.url(name)], settings=ClientSettings(patience_s=0.01))

    async def write(self, name: str, *models: str) -> None:
        async with self.client(name) as registry:
            for model in models:
                await registry.set_model(model, owner="tests", gate=None)

    async def status(self, name: str) -> RegionStatus:
        async with self.client(name) as registry:
            return (await registry.state()).region

    async def until(self, name: str, holds: Callable[[RegionStatus], bool]) -> RegionStatus:
        found: Any = None
        try:
            async with asyncio.timeout(WAIT_S):
                while not holds(found := await self.status(name)):  # noqa: ASYNC110  another's state
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{name}: {found}") from None
        return found

    async def caught_up(self, name: str, to: str = "home") -> RegionStatus:
        async with self.client(to) as home:
            seq = (await home.state()).head.seq
        return await self.until(name, lambda found: found.seq == seq)

    # What lies in the files, while nobody runs

    @asynccontextmanager
    async def stopped(self, config: RegistryConfig) -> AsyncIterator[tuple[Catalog, Artifacts]]:
        config.state_dir.mkdir(exist_ok=True)
        database = RegistryDatabase(config.catalog_url)
        database.open()
        try:
            yield Catalog(database), Artifacts(config.artifacts, config.state_dir)
        finally:
            database.close()

    async def head(self, config: RegistryConfig) -> Head:
        async with self.stopped(config) as (catalog, _):
            return catalog.head()

    async def artifact(self, config: RegistryConfig, role: str) -> Path:
        """The file of a role's newest trust metadata."""
        async with self.stopped(config) as (catalog, artifacts):
            reader = await artifacts.open(catalog.trust_file(role).sha256)
            assert reader.path is not None
            return reader.path

    async def scribble(self, config: RegistryConfig, model: str) -> None:
        """An entry that no home has decided."""
        async with self.stopped(config) as (catalog, _):
            catalog.apply(SetModel(model, "tests", None), "tests", 1.0)

    async def promoted(
        self, config: RegistryConfig, *keys: str, force: bool = False, dry_run: bool = False
    ) -> Promotion:
        signers = [load_signer(self.keys / f"{key}.pem", None) for key in keys]
        return await promote(
            config, signers or [load_signer(self.keys / f"root-{n}.pem", None) for n in (1, 2)],
            actor="tests", comment="", environment={}, now=datetime.now(UTC), force=force,
            dry_run=dry_run,
        )  # fmt: skip
