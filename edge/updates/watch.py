"""Looks at the registries now and then, and when somebody asks; offers what it finds."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from edge.updates.choice import choose
from edge.updates.driver import Driver
from edge.updates.events import Offered, Resumed, RetryAsked, Unseen
from edge.updates.look import look
from edge.updates.missing import Missing
from edge.updates.registry_client import RegistryClient
from edge.updates.release import Release
from edge.updates.reports import Reporter
from edge.updates.settings import UpdateSettings
from shared.backoff import Jitter, pause_s
from shared.errors import HybridgeError, Unavailable
from shared.trust.first_fresh import Refreshes

log = logging.getLogger(__name__)


class Watch:
    def __init__(
        self,
        settings: UpdateSettings,
        registry: RegistryClient,
        trust: Refreshes,
        driver: Driver,
        reporter: Reporter,
        wake: asyncio.Event,
        *,
        now: Callable[[], datetime],
        rng: Jitter,
    ) -> None:
        """`wake` is set when it is time to look."""
        self._settings, self._registry, self._trust = settings, registry, trust
        self._driver, self._reporter, self._wake = driver, reporter, wake
        self._now, self._rng = now, rng
        self._missing = Missing(settings.released_s_max)
        self._draining, self._retry = asyncio.Event(), False
        self._looking: asyncio.Future[tuple[Release, ...]] | None = None
        self.note = ""
        """What the last look gave, in words."""
        self.checked_at: float | None = None
        """Unix seconds of the last good look, by this device's clock."""
        self.failures = 0
        """Looks in a row that failed."""

    @property
    def draining(self) -> asyncio.Event:
        return self._draining

    def retry(self) -> None:
        """Before the next look, forget what was refused."""
        self._retry = True

    def drain(self) -> None:
        self._draining.set()
        self._wake.set()
        if self._looking is not None:
            self._looking.cancel()

    async def run(self) -> None:
        """Until `drain`."""
        s = self._settings
        pause = self._rng.uniform(0, s.backoff_s_min)  # a region's devices start together
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()
            if self._draining.is_set():
                return
            try:
                await self._look()
                pause = self._regular_pause()
            except HybridgeError as error:
                asked = error.retry_after_s or 0.0 if isinstance(error, Unavailable) else 0.0
                pause = self.failed(error, asked)
                await self._unseen()
            with suppress(TimeoutError):  # however often somebody asks for a look
                async with asyncio.timeout(s.backoff_s_min):
                    await self._draining.wait()

    def _regular_pause(self) -> float:
        if self._missing.soon:
            return self._backoff(self._missing.looks)
        return self._settings.poll_s * self._rng.uniform(0.9, 1.1)

    async def _look(self) -> None:
        if self._retry:
            self._retry = False
            await self._driver.advance(RetryAsked())
        looking = look(self._registry, self._trust, self._driver.state.model, self._now)
        self._looking = asyncio.ensure_future(looking)
        try:
            releases = await self._looking
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._draining.is_set() or (task is not None and task.cancelling()):
                raise
            return
        if self.failures:
            log.info("registry_back", extra={"after": self.failures})
        self.failures, self.checked_at = 0, self._now().timestamp()
        await self._offer(releases)
        self._reporter.note(self._driver.report())

    async def _offer(self, releases: tuple[Release, ...]) -> None:
        pin = self._settings.pin
        choice = choose(self._driver.state, releases, pin)
        self.note = choice.why
        patient = self._patient(missing=not choice.blocked and choice.release is None)
        await self._driver.advance(Offered(releases, pin, patient))
        if self._driver.idle:
            await self._driver.advance(Resumed())

    async def _unseen(self) -> None:
        """A look that failed misses what the fleet asks for, too."""
        state = self._driver.state
        missing = not (state.busy or choose(state, (), None).blocked)
        if missing and not self._patient(missing=True):
            await self._driver.try_to(Unseen(self.note))

    def _patient(self, *, missing: bool) -> bool:
        """Whether what is missing may still come."""
        target = self._driver.state.target if missing else None
        return self._missing.note(target, asyncio.get_running_loop().time())

    def failed(self, error: HybridgeError, asked_s: float) -> float:
        """Seconds to wait. Logged when it begins, not each time."""
        self.failures += 1
        self.note = f"no look at the registry: {error}"
        if self.failures == 1:
            log.warning("registry_unusable", extra={"why": str(error)[:300]})
        return self._backoff(self.failures, asked_s)

    def _backoff(self, times: int, asked_s: float = 0.0) -> float:
        s = self._settings
        longest = min(s.backoff_s_max, s.poll_s)
        return pause_s(times, s.backoff_s_min, longest, self._rng, asked_s)
