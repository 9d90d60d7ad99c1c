"""One release in a process that kills itself at a step of it: `python -m ... FOLDER STEP`.

Real parts on a real catalog and store; SIGKILL, so nothing is flushed, closed or undone.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.catalog.catalog import Applied, Catalog
from cloud.registry.catalog.commands import Command, Release
from cloud.registry.registry import Registry
from cloud.registry.releasing import Releasing
from cloud.registry.replication.replication import Replication
from cloud.registry.replication.settings import PeerSettings
from cloud.registry.store.database import RegistryDatabase
from cloud.registry.trust.keys import load_signers
from cloud.registry.trust.repository import Prepared, Repository
from cloud.registry.trust.settings import TrustSettings

BEFORE, AFTER = ("file-1", "file-3", "before-commit"), ("after-commit", "settled")
"""Files of metadata stored; the transaction; what was staged forgotten."""


class Killing:
    """Ends the process when its step comes."""

    def __init__(self, step: str) -> None:
        self._step = step

    def at(self, step: str) -> None:
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


class KilledArtifacts(Artifacts):
    def __init__(self, state_dir: Path, killing: Killing) -> None:
        super().__init__(ArtifactSettings(), state_dir)
        self._killing, self._count = killing, 0

    async def put_bytes(self, content: bytes) -> str:
        stored = await super().put_bytes(content)
        self._count += 1
        self._killing.at(f"file-{self._count}")
        return stored


class KilledCatalog(Catalog):
    def __init__(self, database: RegistryDatabase, killing: Killing) -> None:
        super().__init__(database)
        self._killing = killing

    def apply_all(self, commands: Sequence[Command], actor: str, now: float) -> Applied:
        self._killing.at("before-commit")
        applied = super().apply_all(commands, actor, now)
        self._killing.at("after-commit")
        return applied


class KilledRepository(Repository):
    killing: Killing

    async def settle(self, prepared: Prepared) -> None:
        await super().settle(prepared)
        self.killing.at("settled")


async def release(folder: Path, step: str, model: str, version: str) -> None:
    state_dir, killing = folder / "state", Killing(step)
    database = RegistryDatabase(f"sqlite:///{state_dir / 'catalog.db'}")
    database.open()
    catalog, artifacts = KilledCatalog(database, killing), KilledArtifacts(state_dir, killing)
    signers = load_signers(folder / "keys" / "online", None)
    trust = KilledRepository(TrustSettings(), catalog, artifacts, state_dir / "trust", signers)
    trust.killing = killing
    await trust.start()
    replication = Replication(
        name="r", home=None, peers=PeerSettings(), state_dir=state_dir, catalog=catalog,
        artifacts=artifacts, sign=trust.sign_head,
    )  # fmt: skip
    await replication.start()
    registry = Registry("r", catalog, artifacts, replication, time.time)
    await Releasing(registry, trust).release(Release(model, version, "go", 0), None, "operator")


if __name__ == "__main__":
    asyncio.run(release(Path(sys.argv[1]), *sys.argv[2:]))
