"""Keeps the device's certificate fresh while the agent runs."""

import asyncio
import logging
import time
from pathlib import Path

from edge.identity.enrol import renew
from edge.identity.files import Present, present
from edge.identity.schedule import is_wrong, wait_s
from edge.identity.settings import Identity
from shared.backoff import Jitter, pause_s
from shared.errors import HybridgeError, Malformed, Unavailable

log = logging.getLogger(__name__)


class Renewing:
    """One part of the agent; the link takes the new files with its next connection."""

    def __init__(self, settings: Identity, device: str, state_dir: Path, rng: Jitter) -> None:
        self._settings, self._device, self._state_dir = settings, device, state_dir
        self._rng = rng
        self._jitter = rng.uniform(0.0, 1.0)
        self._drained = asyncio.Event()
        self._failures = 0
        self._renewed_at: float | None = None
        self.serial: str | None = None
        """Of the present certificate, in hex; for the inventory."""

    def drain(self) -> None:
        self._drained.set()

    async def run(self) -> None:
        """Renew from two thirds of the certificate's life on, until `drain`. A failure is logged
        once, and tried again with growing pauses.
        """
        is_missing = False
        while not self._drained.is_set():
            own = await self._look()
            if own is None:
                if not is_missing:
                    log.warning("not_enrolled", extra={"do": "run hybridge-edge enrol"})
                is_missing = True
                await self._wait(self._settings.look_s)
                continue
            is_missing, self.serial = False, own.serial
            due_in_s = self._due_in_s(own)
            if due_in_s > 0:
                await self._wait(due_in_s)
            elif not await self._renew(own):
                s = self._settings
                pause = pause_s(self._failures, s.retry_s_min, s.retry_s_max, self._rng)
                await self._wait(pause)

    async def _look(self) -> Present | None:
        try:
            return await asyncio.to_thread(present, self._state_dir)
        except Malformed as error:
            log.warning("identity_unreadable", extra={"why": str(error)[:300]})
            return None

    def _due_in_s(self, own: Present) -> float:
        held_s = None
        if self._renewed_at is not None:
            held_s = asyncio.get_running_loop().time() - self._renewed_at
        return wait_s(own.validity, time.time(), self._jitter, held_s)

    async def _renew(self, own: Present) -> bool:
        asking = asyncio.ensure_future(renew(self._settings, self._device, self._state_dir))
        drained = asyncio.ensure_future(self._drained.wait())
        try:
            await asyncio.wait({asking, drained}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            drained.cancel()
            asking.cancel()  # nothing happens to one that is done
        if not asking.done():
            return False
        try:
            new = asking.result()
        except HybridgeError as error:
            self._failures += 1
            if self._failures == 1 or not isinstance(error, Unavailable):
                more = {
                    "why": str(error)[:500],
                    "clock_is_slow": is_wrong(own.validity, time.time()),
                }
                log.warning("certificate_not_renewed", extra=more)
            return False
        self._failures, self._renewed_at = 0, asyncio.get_running_loop().time()
        self.serial = new.serial
        log.info("certificate_renewed", extra={"serial": new.serial, "before": own.serial})
        return True

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._drained.wait()
        except TimeoutError:
            return
