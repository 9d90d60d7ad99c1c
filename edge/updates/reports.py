"""Tell the registry what runs here: best effort, the newest only, never in the way."""

import asyncio
import logging

from edge.updates.registry_client import RegistryClient
from shared.errors import HybridgeError

log = logging.getLogger(__name__)


class Reporter:
    def __init__(self, registry: RegistryClient, device: str) -> None:
        self._registry, self._device = registry, device
        self._newest: dict[str, str] = {}
        self._due = asyncio.Event()
        self._heard = True

    def note(self, document: dict[str, str]) -> None:
        """To be sent; one that still waits is replaced."""
        self._newest = document
        self._due.set()

    async def run(self) -> None:
        """Until cancelled. A report that fails is not repeated: the next look brings another."""
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self._registry.report(self._device, self._newest)
            except HybridgeError as error:
                if self._heard:
                    log.warning("report_unheard", extra={"why": str(error)[:300]})
                self._heard = False
            else:
                self._heard = True
