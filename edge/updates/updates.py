"""Updates of one agent: what it is told and asked, and the life of its parts.

The state is on disk before what follows from it is done. The active model answers throughout.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from edge.updates.download import Download
from edge.updates.driver import Driver
from edge.updates.events import RolledBack, Started, Stopped
from edge.updates.fleet_view import FleetView, view_of
from edge.updates.folders import Folders, factory_release
from edge.updates.follower import Follower
from edge.updates.registry_client import RegistryClient
from edge.updates.release import Release
from edge.updates.reports import Reporter
from edge.updates.settings import UpdateSettings
from edge.updates.start import load_state
from edge.updates.state import State
from edge.updates.status import UpdateStatus, status_of
from edge.updates.target import Target
from edge.updates.watch import Watch
from edge.updates.work import Serving, Work
from shared.backoff import Jitter
from shared.bundle.reader import open_bundle
from shared.errors import Conflict, HybridgeError, Malformed, Unknown
from shared.fetching.attempts import Patience
from shared.fetching.pace import Pace
from shared.fetching.session import open_session
from shared.fleet.telemetry import Shadow
from shared.ids import SampleId
from shared.trust.first_fresh import Refreshes
from shared.trust.pinned_root import read_pinned_root
from shared.trust.store import TrustStore


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
        follows_fleet: bool = False,
    ) -> None:
        """`factory`: the bundle of the agent's settings; `engine` as it stands there;
        `follows_fleet`: take what `follow` is told, and nothing before that.

        Blocking: reads two small files. Raises `Malformed` when the root of trust cannot be read,
        or when a version is pinned beside a fleet.
        """
        if follows_fleet and settings.pin is not None:
            raise Malformed("updates.pin: the fleet says what this device runs; remove the pin")
        self.on_change: Callable[[], None] = lambda: None
        """Called on the event loop after `view` may have changed."""
        self._settings, self._serving = settings, serving
        self._folders = Folders(state_dir, factory)
        trust = trust or TrustStore(
            self._folders.trust, read_pinned_root(settings.root, "updates.root")
        )
        rng = rng or random.Random()  # noqa: S311  for spreading load
        self._registry = RegistryClient(settings)
        self._download = _download(settings, self._registry, self._folders, rng)
        self._work = Work(
            settings, serving, self._folders, self._download,
            engine=engine, cache_dir=state_dir / "engines", now=now,
        )  # fmt: skip
        self._reporter = Reporter(self._registry, device_id)
        self._wake = asyncio.Event()
        backoff_s = (settings.backoff_s_min, settings.backoff_s_max)
        self._driver = Driver(
            _as_set_up(load_state(self._folders, serving.slot.bundle), follows=follows_fleet),
            serving, self._folders, self._work, self._reporter, self._wake,
            proven_s=settings.proven_s, backoff_s=backoff_s, rng=rng,
            changed=self._changed,
        )  # fmt: skip
        self._follower = Follower(self._driver, self._folders, self._wake, backoff_s, rng)
        self._watch = Watch(
            settings,
            self._registry,
            trust,
            self._driver,
            self._reporter,
            self._wake,
            now=now,
            rng=rng,
        )

    # Life

    async def run(self) -> None:
        """Until `drain`. What goes wrong with an update never ends it; a bug does."""
        driver = self._driver
        async with asyncio.TaskGroup() as tasks:
            driver.begin(tasks)
            following = tasks.create_task(self._follower.run(), name="fleet")
            if (session := await self._session()) is not None:
                async with session:
                    self._registry.session = session
                    reporting = tasks.create_task(self._reporter.run(), name="reports")
                    await driver.try_to(Started())
                    await self._watch.run()
                    await driver.end()
                    reporting.cancel()
            self._follower.drain()
            await asyncio.wait({following})
            await driver.end()
        await driver.try_to(Stopped())

    async def _session(self) -> aiohttp.ClientSession | None:
        """As soon as its TLS files can be read; None when the agent ends before."""
        draining = self._watch.draining
        while not draining.is_set():
            try:
                return open_session(self._settings)
            except HybridgeError as error:
                pause = self._watch.failed(error, 0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await draining.wait()
        return None

    def drain(self) -> None:
        """Stop looking; a candidate on its way waits on disk for the next start."""
        self._watch.drain()

    # What people ask

    def status(self) -> UpdateStatus:
        trial, download = self._work.trial, self._download
        return status_of(
            self._driver.state,
            note=self._work.waits or self._driver.trouble or self._watch.note,
            progress=(download.done_bytes, download.total_bytes, download.saved_bytes),
            trial=(0, 0) if trial is None else (trial.tally.ran, trial.tally.skipped),
            checked_at=self._watch.checked_at,
            failures=self._watch.failures,
        )

    def request_check(self, *, retry: bool = False) -> None:
        """Look now; `retry`: and give what was refused another try."""
        if retry:
            self._watch.retry()
        self._wake.set()

    async def release_hold(self) -> None:
        """Let newer versions come again after a rollback, and look for them.

        Raises `Unavailable` when the disk does not take it.
        """
        await self._follower.release_hold()
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

    def _changed(self) -> None:
        self.on_change()  # whoever is to be told is set later than this object is made

    # What the fleet asks

    def follow(self, target: Target | None) -> asyncio.Future[None]:
        """What the fleet wants this device to run; None: nothing any more. Call it on the event
        loop, also before `run` and with copies; what is older than the last one is passed over.

        The future is done once it is on disk: from then on a kill -9 does not lose it. It need not
        be awaited, never fails, and stays open when the agent ends first.
        """
        assert self._driver.state.follows, "made without follows_fleet"
        return self._follower.follow(target)

    def view(self) -> FleetView:
        """What there is to report to the fleet about the model."""
        look = self._watch.note if self._watch.failures else ""
        note = self._work.waits or self._driver.trouble or look
        return view_of(self._driver.state, self._driver.answering, note)

    def shadow_tally(self) -> Shadow | None:
        """Of the last run in shadow in this life of the agent, over or not."""
        evidence = self._work.evidence
        return None if evidence is None else evidence.shadow()

    def cloud_said(self, sample: SampleId, label: int) -> None:
        """The cloud's label for a live sample, whenever it comes."""
        if self._work.evidence is not None:
            self._work.evidence.cloud_said(sample, label)

    def retune(self, spans: Sequence[str], bytes_per_s: float | None) -> None:
        """Other windows for downloads, as in the settings, and another pace; from the next window's
        edge and the next file on. Raises `Malformed` for a window that is none.
        """
        self._work.retune(spans)
        self._download.pace = None if bytes_per_s is None else Pace(bytes_per_s)


def _as_set_up(state: State, *, follows: bool) -> State:
    """A device that left its fleet forgets what that asked for."""
    return replace(state, follows=follows, target=state.target if follows else None)


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
