"""Keeps the timestamp from running out."""

import asyncio
import logging

from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.registry import Registry
from cloud.registry.releasing import Releasing
from cloud.registry.settings import Upkeep
from shared.errors import HybridgeError, ReadOnly, Unknown

log = logging.getLogger(__name__)


class TrustUpkeep:
    """By the clock. A failure is told once, and once when it is over: devices have days."""

    def __init__(
        self, registry: Registry, releasing: Releasing, settings: Upkeep, metrics: RegistryMetrics
    ) -> None:
        self._registry, self._releasing = registry, releasing
        self._settings, self._metrics = settings, metrics
        self._trouble = ""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._settings.trust_look_s)

    async def look(self) -> None:
        """Sign a new timestamp where it is time."""
        trouble = ""
        try:
            self._registry.replication.check_writable()
            due = await self._releasing.tick()
            self._metrics.timestamp_due.set(due.timestamp())
        except (ReadOnly, Unknown):
            pass  # the home signs; or there are no keys yet
        except HybridgeError as error:
            trouble = str(error)
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                log.error("timestamp_not_signed", extra={"why": trouble})
            else:
                log.info("timestamp_signed_again")
