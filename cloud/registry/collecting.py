"""Artifacts over time: what nothing needs is removed, what lost a bit is found."""

import asyncio
import logging

from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.artifacts.collection import Collected
from cloud.registry.registry import Registry
from cloud.registry.settings import Upkeep
from shared.errors import HybridgeError, InUse

log = logging.getLogger(__name__)


class Collecting:
    """Each registry collects by its own catalog. One collection, one scrub at a time."""

    def __init__(self, registry: Registry, settings: Upkeep, metrics: RegistryMetrics) -> None:
        self._registry, self._settings, self._metrics = registry, settings, metrics
        self._busy = asyncio.Lock()

    async def collect(self, *, dry_run: bool, actor: str) -> Collected:
        """Raises `InUse` where another one is under way, and as `Artifacts.collect`."""
        if self._busy.locked():
            raise InUse("garbage is being collected already; ask again when that is done")
        async with self._busy:
            registry = self._registry
            # what is needed is asked after `now`: whatever is pushed since then is young
            now = registry.now()
            needed = await registry.read(registry.catalog.needed_artifacts, now)
            found = await registry.artifacts.collect(needed, dry_run=dry_run, now=now)
        if not dry_run:
            self._metrics.collected_bytes.inc(found.freed_bytes)
        log.info(
            "garbage_collected",
            extra={
                "actor": actor, "dry_run": dry_run, "removed": len(found.removed),
                "freed_bytes": found.freed_bytes, "kept": found.kept, "young": found.young,
            },
        )  # fmt: skip
        return found

    async def run(self) -> None:
        """By the clock, until it is cancelled. A store that is away is asked again next time."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._collecting())
            parts.create_task(self._scrubbing())

    async def _collecting(self) -> None:
        while self._settings.collect_hours:
            await asyncio.sleep(self._settings.collect_hours * 3600)
            try:
                await self.collect(dry_run=False, actor="registry")
            except HybridgeError as error:
                log.error("collect_failed", extra={"why": str(error)})  # noqa: TRY400  words suffice

    async def _scrubbing(self) -> None:
        while self._settings.scrub_hours:
            await asyncio.sleep(self._settings.scrub_hours * 3600)
            try:
                found = await self._registry.artifacts.scrub()
            except HybridgeError as error:
                log.error("scrub_failed", extra={"why": str(error)})  # noqa: TRY400  words suffice
                continue
            self._metrics.corrupt.inc(len(found.corrupt))
            said = {"checked": found.checked, "bytes": found.bytes, "corrupt": found.corrupt[:10]}
            (log.error if found.corrupt else log.info)("artifacts_scrubbed", extra=said)
