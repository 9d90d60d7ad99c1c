"""The list of revoked certificates, for the broker: written at each revocation, and by the clock."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cloud.fleet.certifying import Certifying
from cloud.fleet.devices import Fleet
from cloud.fleet.settings import Identity
from cloud.fleet.setup.acl import acl
from shared.disk import write_whole
from shared.errors import HybridgeError, Unknown

log = logging.getLogger(__name__)

_DAY_S: Final = 86_400.0
_BROKERS: Final = (b"cloud.broker", b"mosquitto")
_AGAIN_S: Final = 10.0
"""After a list that could not be written: a full disk, a store that is away."""


class Revoking:
    """`run` for good. What a kill leaves unwritten is written at the next start."""

    def __init__(
        self, certifying: Certifying, fleet: Fleet, settings: Identity,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._certifying, self._fleet, self._settings = certifying, fleet, settings
        self._now = now
        self._wanted = asyncio.Event()

    def write_soon(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            wait_s = self._settings.crl_days * _DAY_S / 2
            try:
                await asyncio.to_thread(self.write)
            except HybridgeError as error:
                log.error("crl_not_written", extra={"why": str(error)})  # noqa: TRY400  words suffice
                wait_s = _AGAIN_S
            try:
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    def write(self) -> None:
        """Blocking. Raises `Unavailable`."""
        write_whole(self._certifying.crl_path, self._certifying.crl(self._now()).encode())
        if self._settings.acl is not None:
            write_whole(self._settings.acl, acl(self._shut_out()).encode(), private=True)
        self._tell_broker()

    def _shut_out(self) -> set[str]:
        """Devices that had a certificate revoked, and are not in the fleet (any more)."""
        found = set[str]()
        for serial in self._fleet.revoked_serials():
            known = self._fleet.certificate(serial)
            if known is not None and not self._is_in_the_fleet(known[0]):
                found.add(known[0])
        return found

    def _is_in_the_fleet(self, device: str) -> bool:
        try:
            return self._fleet.device(device).revoked_at is None
        except Unknown:
            return False

    def _tell_broker(self) -> None:
        path = self._settings.broker_pid_file
        if path is None:
            return
        try:
            pid = int(path.read_text().strip())
            why = "" if pid > 1 and _is_broker(pid) else f"process {pid} is no broker; is it down?"
            if not why:
                os.kill(pid, signal.SIGHUP)
        except (OSError, ValueError) as error:
            why = str(error)
        if why:
            log.warning("broker_not_told", extra={"file": str(path), "why": why})


def _is_broker(pid: int) -> bool:
    """SIGHUP ends what does not expect it, and a broker that was killed leaves its number to others."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()  # no such process; or a system that does not say
    return any(name in words for name in _BROKERS)
