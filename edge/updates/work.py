"""One command for a candidate, and the event that comes of it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from edge.answers import Answer
from edge.inference.slot import Slot, open_slot
from edge.updates import windows
from edge.updates.download import Download, Incompatible
from edge.updates.events import (
    Downloaded,
    Event,
    Failed,
    Fetch,
    Interrupted,
    Labour,
    NotRestored,
    Probe,
    Probed,
    Rejected,
    Restore,
    Restored,
    Stage,
    Tried,
    Try,
    Verified,
    Verify,
)
from edge.updates.folders import Folders
from edge.updates.probe import Bounds, Unfit, probe
from edge.updates.release import Release
from edge.updates.settings import UpdateSettings
from edge.updates.shadow import HURRY_S, Trial
from edge.updates.shadow_tally import ShadowTally
from edge.updates.state import State
from shared.day_span import parse_span
from shared.disk import NoRoom
from shared.errors import HybridgeError, Malformed, NotTrusted, Refused, TooLarge, Unavailable

log = logging.getLogger(__name__)

_WINDOW_LOOK_S = 3600.0  # the wall's clock may be set meanwhile
_CLOSED_LOOK_S = 300.0


class Serving(Protocol):
    """What updates ask of the agent."""

    shadow: Callable[[NDArray[np.uint8], Answer], None] | None

    @property
    def slot(self) -> Slot:
        """The one that answers now."""
        ...

    def swap(self, slot: Slot) -> Slot:
        """Answer with another from the next sample on; gives back the one before.

        Raises `Unknown` when the agent's settings do not fit its bundle; nothing changes then.
        """
        ...


class Work:
    def __init__(
        self,
        settings: UpdateSettings,
        serving: Serving,
        folders: Folders,
        download: Download,
        *,
        engine: str,
        cache_dir: Path,
        now: Callable[[], datetime],
    ) -> None:
        self._settings, self._serving, self._folders = settings, serving, folders
        self._download, self._engine, self._cache_dir = download, engine, cache_dir
        self._now = now
        self._spans, self._zone = settings.spans(), settings.zone()
        self._hours = settings.windows
        self._variant: tuple[Release, str] | None = None  # that the probe chose
        self.trial: Trial | None = None
        self.evidence: ShadowTally | None = None  # of the last run in shadow
        self._runs, self._live = 0, True  # in shadow; on trial there, and not staged
        self.waits = ""  # for a window

    def retune(self, hours: Sequence[str]) -> None:
        """Other windows for downloads. Raises `Malformed` for one that is none."""
        self._spans, self._hours = tuple(map(parse_span, hours)), tuple(hours)

    async def do(self, command: Labour, state: State) -> tuple[Event, Slot | None]:
        """What came of it, and the open slot of what is to answer now."""
        try:
            match command:
                case Fetch(generation, release):
                    return await self._fetch(generation, release, state), None
                case Verify(generation, release):
                    return await self._verify(generation, release), None
                case Probe(generation, release):
                    return await self._probe(generation, release, state), None
                case Stage(generation, release):
                    self._live = False
                    return await self._try(generation, release)
                case Try(generation, release):
                    self._live = True
                    return await self._try(generation, release)
                case Restore(generation, release):
                    return await self._restore(generation, release)
                case _:
                    assert_never(command)
        except (OSError, MemoryError) as error:  # a disk that breaks must not end the agent
            return Failed(command.generation, f"this device: {error or 'no memory'}"), None

    # Download

    async def _fetch(self, generation: int, release: Release, state: State) -> Event:
        if await asyncio.to_thread(self._folders.of(release).is_dir):
            return Downloaded(generation)
        active = self._serving.slot.manifest
        installed = (state.active, *state.previous)
        try:
            while True:
                async with self._while_open() as limit:
                    await self._download.fetch(release, active, installed)
                if not limit.expired():
                    return Downloaded(generation)
        except (NoRoom, NotTrusted) as error:  # room, or whole bytes, may be there another time
            return Failed(generation, str(error))
        except (Incompatible, Malformed, TooLarge) as error:
            return Rejected(generation, str(error))
        except HybridgeError as error:
            return Interrupted(generation, str(error))
        finally:
            self.waits = ""

    @asynccontextmanager
    async def _while_open(self) -> AsyncIterator[asyncio.Timeout]:
        """Wait for a window; what runs inside ends with it."""
        while not windows.is_open(self._spans, local := self._local()):
            opens_s = windows.changes_in_s(self._spans, local) or _CLOSED_LOOK_S
            self.waits = f"for a window: {', '.join(self._hours)}"
            await asyncio.sleep(min(opens_s, _CLOSED_LOOK_S))
        self.waits = ""
        closes_s = windows.changes_in_s(self._spans, self._local())
        limit = asyncio.timeout(None if closes_s is None else min(closes_s, _WINDOW_LOOK_S))
        try:
            async with limit:
                yield limit
        except TimeoutError:
            if not limit.expired():
                raise

    def _local(self) -> datetime:
        return self._now().astimezone(self._zone)

    # Verify

    async def _verify(self, generation: int, release: Release) -> Event:
        try:
            await asyncio.to_thread(self._verified, release)
        except (Malformed, TooLarge) as error:
            return Rejected(generation, str(error))
        except NotTrusted as error:  # the bytes changed on this disk
            await asyncio.to_thread(self._folders.discard, release)
            return Failed(generation, str(error))
        except Unavailable as error:
            return Failed(generation, str(error))
        return Verified(generation)

    def _verified(self, release: Release) -> None:
        staged = self._folders.staging(release)
        if staged.is_dir():
            self._folders.open(release, staged)
            self._folders.install(release)
        else:  # installed already: before a kill -9, or a version that is kept
            self._folders.open(release)

    # Probe

    async def _probe(self, generation: int, release: Release, state: State) -> Event:
        s = self._settings
        try:
            found = await probe(
                self._folders.of(release), self._folders.of(state.active),
                engine=self._engine, active_variant=self._serving.slot.key,
                cache_dir=self._cache_dir,
                bounds=Bounds(s.probe_s_max, s.latency_ms_max, s.slower_max),
            )  # fmt: skip
        except Unfit as error:
            return Rejected(generation, str(error), error.golden)
        except OSError as error:  # no process, no memory
            return Failed(generation, f"the probe could not start: {error}")
        self._variant = (release, found.variant)
        return Probed(generation, found.why)

    # In shadow

    def turn(self, *, live: bool) -> None:
        """What runs in shadow goes from staged to trial, or back; it may still be opening."""
        self._live = live
        if self.trial is not None:
            self.trial.turn(live=live)

    async def _try(self, generation: int, release: Release) -> tuple[Event, Slot | None]:
        engine = self._engine
        if self._variant is not None and self._variant[0].same_as(release):
            engine = self._variant[1]
        try:
            slot = await asyncio.to_thread(self.open, release, engine)
        except NotTrusted as error:
            await asyncio.to_thread(self._folders.discard, release)
            return Failed(generation, str(error)), None
        except (Refused, Unavailable) as error:
            return Rejected(generation, f"does not open: {error}"), None
        self._runs += 1
        self.evidence = ShadowTally(release.version, self._runs)
        trial = Trial(
            slot, self._settings.trial_terms(), self._settings.trial_cpu_share,
            evidence=self.evidence, live=self._live,
        )  # fmt: skip
        self.trial, self._serving.shadow = trial, trial.show
        accepted = ended = False
        try:
            verdict = await trial.run()
            accepted = verdict.accepted
        except asyncio.CancelledError:
            ended = True
            raise
        finally:
            self.trial, self._serving.shadow = None, None
            accepted = await _left(trial, slot, keep=accepted, hurry=ended)
        if not accepted:
            return Rejected(generation, verdict.why), None
        return Tried(generation, verdict.why), slot

    # Back

    async def _restore(self, generation: int, release: Release) -> tuple[Event, Slot | None]:
        try:
            return Restored(generation), await asyncio.to_thread(self.open, release)
        except NotTrusted as error:
            await asyncio.to_thread(self._folders.discard, release)
            return NotRestored(generation, str(error)), None
        except HybridgeError as error:
            return NotRestored(generation, str(error)), None

    def open(self, release: Release, engine: str | None = None) -> Slot:
        """Blocking. Raises what opening raises, `NotTrusted` when its bytes have changed."""
        if not release.factory:
            self._folders.open(release)
        return open_slot(self._folders.of(release), engine or self._engine, self._cache_dir)


async def _left(trial: Trial, slot: Slot, *, keep: bool, hurry: bool) -> bool:
    """End the trial, through a cancel too; close the slot unless it is kept and nothing hangs."""

    async def leave() -> bool:
        free = await trial.leave(hurry=hurry)
        if free and not keep:
            await slot.retire()
        return free and keep  # a slot in which a thread hangs is left behind, open

    leaving = asyncio.ensure_future(leave())
    try:
        return await asyncio.shield(leaving)
    except asyncio.CancelledError:
        await asyncio.wait({leaving}, timeout=HURRY_S)
        if not leaving.done():
            leaving.cancel()
        elif leaving.result():
            await slot.retire()
        raise
