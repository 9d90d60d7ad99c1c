"""What the feedback store needs again and again: old samples go, sites are heard, files are swept."""

import asyncio
import logging
from collections.abc import Callable

from cloud.feedback.sites import Sites
from cloud.feedback.store import FeedbackStore
from shared.errors import HybridgeError

log = logging.getLogger(__name__)


class Upkeep:
    """`run` until cancelled, or until `drain`."""

    def __init__(self, store: FeedbackStore, sites: Sites, now: Callable[[], float]) -> None:
        """`now` gives Unix seconds."""
        self._store, self._sites, self._now = store, sites, now
        self._ending = asyncio.Event()
        self._ails = {"sites": False, "samples": False}

    async def run(self) -> None:
        """One round at once, then one every `upkeep_every_s`."""
        while not self._ending.is_set():
            await self.look()
            try:
                async with asyncio.timeout(self._store.settings.upkeep_every_s):
                    await self._ending.wait()
            except TimeoutError:
                continue

    def drain(self) -> None:
        """The round that is under way is the last."""
        self._ending.set()

    async def look(self) -> None:
        """One round. What is away is asked again in the next."""
        try:
            found = await self._sites.sites()
            changed = await asyncio.to_thread(self._store.keep_sites, found)
        except HybridgeError as error:
            self._note("sites", error)
        else:
            self._note("sites", None)
            if changed:
                log.info("feedback_sites", extra={"changed": changed})
        try:
            expired = await asyncio.to_thread(self._store.expire, self._now())
            swept = await asyncio.to_thread(self._store.sweep, self._now())
        except HybridgeError as error:
            self._note("samples", error)
        else:
            self._note("samples", None)
            if expired or swept:
                log.info("feedback_expired", extra={"rows": expired, "files": swept})

    def _note(self, part: str, error: HybridgeError | None) -> None:
        """Once when it fails, and once when it is back."""
        if error is not None and not self._ails[part]:
            log.warning("feedback_upkeep_fails", extra={"part": part, "why": str(error)[:300]})
        if error is None and self._ails[part]:
            log.info("feedback_upkeep_back", extra={"part": part})
        self._ails[part] = error is not None
