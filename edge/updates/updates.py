"""Updates of one agent: looks at the registry, and takes a candidate through the machine.

The state is on disk before what follows from it is done. The active model answers throughout.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from edge.updates.choice import choose
from edge.updates.download import Download
from edge.updates.driver import Driver
from edge.updates.events import (
    HoldReleased,
    Offered,
    Resumed,
    RetryAsked,
    RolledBack,
    Started,
    Stopped,
)
from edge.updates.folders import Folders, factory_release
from edge.updates.look import look
from edge.updates.registry_client import RegistryClient
from edge.updates.release import Release
from edge.updates.reports import Reporter
from edge.updates.settings import UpdateSettings
from edge.updates.start import load_state
from edge.updates.status import UpdateStatus, status_of
from edge.updates.work import Serving, Work
from shared.backoff import Jitter, pause_s
from shared.bundle.reader import open_bundle
from shared.errors import Conflict, HybridgeError, Unavailable, Unknown
from shared.fetching.attempts import Patience
from shared.fetching.pace import Pace
from shared.fetching.session import open_session
from shared.trust.first_fresh import Refreshes
from shared.trust.pinned_root import read_pinned_root
from shared.trust.store import TrustStore

log = logging.getLogger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Updates:
    """Make it after the agent, run it beside it, and let it end before the agent does."""

    def __init__(
        self,
        settings: UpdateSettings,
        serving: Serving,
        *,
        state_dir: Path,
        factory: Path,
        device_id: str,
        engine: str,
        trust: Refreshes | None = None,
        now: Callable[[], datetime] = _utc_now,
        rng: Jitter | None = None,
    ) -> None:
        """`factory`: the bundle of the agent's settings; `engine` as it stands there.

        Blocking: reads two small files. Raises `Malformed` when the root of trust cannot be read.
        """
        self._settings, self._serving = settings, serving
        self._folders = Folders(state_dir, factory)
        self._trust = trust or TrustStore(
            self._folders.trust, read_pinned_root(settings.root, "updates.root")
        )
        self._now, self._rng = now, rng or random.Random()  # noqa: S311  for spreading load
        self._model = serving.slot.manifest.name
        self._registry = RegistryClient(settings)
        self._download = _download(settings, self._registry, self._folders, self._rng)
        self._work = Work(
            settings, serving, self._folders, self._download,
            engine=engine, cache_dir=state_dir / "engines", now=now,
        )  # fmt: skip
        self._reporter = Reporter(self._registry, device_id)
        self._wake = asyncio.Event()
        self._driver = Driver(
            load_state(self._folders, serving.slot.bundle), serving, self._folders, self._work,
            self._reporter, self._wake, proven_s=settings.proven_s,
            backoff_s=(settings.backoff_s_min, settings.backoff_s_max), rng=self._rng,
        )  # fmt: skip
        self._draining, self._retry = asyncio.Event(), False
        self._note = ""
        self._checked_at: float | None = None
        self._failures = 0  # of looks, in a row
        self._looking: asyncio.Future[tuple[Release, ...]] | None = None

    # Life

    async def run(self) -> None:
        """Until `drain`. What goes wrong with an update never ends it; a bug does."""
        driver = self._driver
        async with asyncio.TaskGroup() as tasks:
            driver.begin(tasks)
            if (session := await self._session()) is not None:
                async with session:
                    self._registry.session = session
                    reporting = tasks.create_task(self._reporter.run(), name="reports")
                    await driver.try_to(Started())
                    await self._watch()
                    await driver.end()
                    reporting.cancel()
            await driver.end()
        await driver.try_to(Stopped())

    async def _session(self) -> aiohttp.ClientSession | None:
        """As soon as its TLS files can be read; None when the agent ends before."""
        while not self._draining.is_set():
            try:
                return open_session(self._settings)
            except HybridgeError as error:
                pause = self._failed(error, 0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._draining.wait()
        return None

    def drain(self) -> None:
        """Stop looking; a candidate on its way waits on disk for the next start."""
        self._draining.set()
        self._wake.set()
        if self._looking is not None:
            self._looking.cancel()

    # What people ask

    def status(self) -> UpdateStatus:
        trial, download = self._work.trial, self._download
        return status_of(
            self._driver.state,
            note=self._work.waits or self._driver.trouble or self._note,
            progress=(download.done_bytes, download.total_bytes, download.saved_bytes),
            trial=(0, 0) if trial is None else (trial.tally.ran, trial.tally.skipped),
            checked_at=self._checked_at,
            failures=self._failures,
        )

    def request_check(self, *, retry: bool = False) -> None:
        """Look now; `retry`: and give what was refused another try."""
        self._retry = self._retry or retry
        self._wake.set()

    async def release_hold(self) -> None:
        """Let newer versions come again after a rollback, and look for them.

        Raises `Unavailable` when the disk does not take it.
        """
        await self._driver.advance(HoldReleased())
        self._wake.set()

    async def rollback(self, version: str | None = None) -> UpdateStatus:
        """Go back to a kept version (the newest when None, or the factory's), and stay there.

        It is verified and open before anything changes. Raises `Unknown` for one that is not kept,
        `Conflict` when it runs already or the agent does not take it, what opening raises, or
        `Unavailable` when the disk does not take the new state.
        """
        release = await asyncio.to_thread(self._kept, version)
        if release.same_as(self._driver.answering):
            raise Conflict(f"{release} runs already; name one of those kept")
        slot = await asyncio.to_thread(self._work.open, release)
        try:
            await self._driver.advance(RolledBack(release), slot)
        finally:
            if self._serving.slot is not slot:
                await slot.retire()
        if self._serving.slot is not slot:
            raise Conflict(
                f"{release} was not taken: {self._driver.state.why or 'it is kept no more'}"
            )
        return self.status()

    def _kept(self, version: str | None) -> Release:
        """Blocking: the factory bundle is read to know what it is."""
        kept = self._driver.state.previous
        if version is None and kept:
            return kept[0]
        found = next((release for release in kept if release.version == version), None)
        if found is None:
            home = factory_release(open_bundle(self._folders.factory))
            if version in (None, home.version):
                return home
            names = ", ".join(str(release) for release in (*kept, home))
            raise Unknown(f"{version} is not on this device; kept are {names}")
        return found

    # Looking

    async def _watch(self) -> None:
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
                pause = s.poll_s * self._rng.uniform(0.9, 1.1)
            except HybridgeError as error:
                asked = error.retry_after_s or 0.0 if isinstance(error, Unavailable) else 0.0
                pause = self._failed(error, asked)
            with suppress(TimeoutError):  # however often somebody asks for a look
                async with asyncio.timeout(s.backoff_s_min):
                    await self._draining.wait()

    async def _look(self) -> None:
        if self._retry:
            self._retry = False
            await self._driver.advance(RetryAsked())
        looking = look(self._registry, self._trust, self._model, self._now)
        self._looking = asyncio.ensure_future(looking)
        try:
            releases = await self._looking
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._draining.is_set() or (task is not None and task.cancelling()):
                raise
            return
        if self._failures:
            log.info("registry_back", extra={"after": self._failures})
        self._failures, self._checked_at = 0, self._now().timestamp()
        self._note = choose(self._driver.state, releases, self._settings.pin).why
        await self._driver.advance(Offered(releases, self._settings.pin))
        if self._driver.idle:
            await self._driver.advance(Resumed())
        self._reporter.note(self._driver.report())

    def _failed(self, error: HybridgeError, asked_s: float) -> float:
        """Seconds to wait. Logged when it begins, not each time."""
        self._failures += 1
        self._note = f"no look at the registry: {error}"
        if self._failures == 1:
            log.warning("registry_unusable", extra={"why": str(error)[:300]})
        s = self._settings
        longest = min(s.backoff_s_max, s.poll_s)
        return pause_s(self._failures, s.backoff_s_min, longest, self._rng, asked_s)


def _download(
    s: UpdateSettings, registry: RegistryClient, folders: Folders, rng: Jitter
) -> Download:
    return Download(
        registry, folders,
        pace=None if s.bytes_per_s is None else Pace(s.bytes_per_s),
        patience=Patience(
            backoff_s_min=s.backoff_s_min, backoff_s_max=s.backoff_s_max, stall_s=s.stall_s_max
        ),
        free_bytes_min=s.free_bytes_min, rng=rng,
    )  # fmt: skip
