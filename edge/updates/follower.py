"""Takes what the fleet asks for to the driver: the newest only, on disk before it counts."""

import asyncio
import logging
from contextlib import suppress

from edge.updates.driver import Driver
from edge.updates.events import Followed, HoldReleased
from edge.updates.folders import Folders, factory_release
from edge.updates.release import Release
from edge.updates.target import Target
from shared.backoff import Jitter, pause_s
from shared.bundle.reader import open_bundle
from shared.errors import HybridgeError, Unavailable

log = logging.getLogger(__name__)


class Follower:
    def __init__(
        self,
        driver: Driver,
        folders: Folders,
        wake: asyncio.Event,
        backoff_s: tuple[float, float],
        rng: Jitter,
    ) -> None:
        """`wake` is set when the registry is to be looked at; `backoff_s`: the shortest and the
        longest pause bound while the disk does not take a target.
        """
        self._driver, self._folders, self._wake = driver, folders, wake
        self._backoff_s, self._rng = backoff_s, rng
        self._asked: tuple[Target | None, asyncio.Future[None]] | None = None
        self._due, self._draining = asyncio.Event(), asyncio.Event()

    def follow(self, target: Target | None) -> asyncio.Future[None]:
        """What the fleet asks for now; the future is done once that, or what is newer, is on disk."""
        if self._asked is None:
            self._asked = (target, asyncio.get_running_loop().create_future())
        elif _newer(target, self._asked[0]):
            self._asked = (target, self._asked[1])
        self._due.set()
        return self._asked[1]

    async def run(self) -> None:
        """Until `drain`: who is cancelled while the disk takes a target leaves a thread behind."""
        failures = 0
        while not self._draining.is_set():
            await self._due.wait()
            try:
                await self._take()
                failures = 0
            except Unavailable as error:
                failures += 1
                self._driver.trouble = str(error)
                log.warning("update_state_unwritable", extra={"why": str(error)[:300]})
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s(failures, *self._backoff_s, self._rng)):
                        await self._draining.wait()

    def drain(self) -> None:
        """What the disk has not taken yet is lost to whoever does not tell it again."""
        self._draining.set()
        self._due.set()

    async def _take(self) -> None:
        asked = self._asked
        if asked is None:
            self._due.clear()
            return
        target, done = asked
        before = self._driver.state.target
        await self._driver.advance(Followed(target, await self._factory(target)))
        if self._driver.state.target != before:
            self._wake.set()
        if self._asked is asked:  # nobody asked for something newer meanwhile
            self._asked = None
            self._due.clear()
            if not done.done():
                done.set_result(None)

    async def release_hold(self) -> None:
        """Raises `Unavailable` when the disk does not take it."""
        state = self._driver.state
        await self._driver.advance(HoldReleased(await self._factory(state.target)))

    async def _factory(self, target: Target | None) -> Release | None:
        if target is None or not target.undo:
            return None
        try:
            return factory_release(await asyncio.to_thread(open_bundle, self._folders.factory))
        except HybridgeError:
            return None  # an undo goes back to what else there is


def _newer(target: Target | None, waiting: Target | None) -> bool:
    return target is None or waiting is None or target.generation > waiting.generation
