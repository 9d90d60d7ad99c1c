"""Watches over drift: telemetry goes in, each few seconds it looks, and what opens or closes is stored.

Kill it at any point: alarms that are on are in the store and do not open twice; windows fill again
from what devices say next.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cloud.fleet.drift.keeping import DriftKeeping
from cloud.fleet.drift.pending import Pending, Waiting
from cloud.fleet.drift.references import References
from cloud.fleet.metrics import FleetMetrics
from cloud.monitoring.drift.board import Change
from cloud.monitoring.drift.documents import Alarm, DriftState, ScopeState
from cloud.monitoring.drift.opened import Opened
from cloud.monitoring.drift.reference import Reference
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.states import ScopeKind, page
from cloud.monitoring.drift.track import Of
from cloud.monitoring.drift.watch import Watch
from shared.errors import HybridgeError, Malformed, Unavailable
from shared.fleet.telemetry import Telemetry
from shared.logs import OncePer

log = logging.getLogger(__name__)

_LOG_PERIOD_S: Final = 60.0
_KEEP_S: Final = 600.0
"""Between two writes of what the watch keeps, where nothing opens or closes."""
_COMPARE_S: Final = 300.0
"""Between two comparisons of the devices watched with those of the fleet."""
_AT_ONCE: Final = 4
"""References that are asked for in one turn."""
_ALARMS_SHOWN: Final = 1000


class Drifting:
    """`run` until `drain`; everything else is called on its event loop."""

    def __init__(
        self,
        keeping: DriftKeeping,
        references: References,
        settings: DriftSettings,
        metrics: FleetMetrics,
        wrote: Callable[[], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`wrote` is called when there is a line in the log; `now` gives Unix seconds."""
        self._keeping, self._references, self._settings = keeping, references, settings
        self._metrics, self._wrote, self._now = metrics, wrote, now
        self._watch: Watch | None = None
        self._pending = Pending(settings.pending_max)
        self._unsaved: list[Change] = []
        self._kept_at = self._compared_at = 0.0
        self._turn = asyncio.Lock()
        """The watch is used by one thread at a time."""
        self._drained = asyncio.Event()
        self._said = OncePer(_LOG_PERIOD_S)
        self._doubts: dict[str, int] = {}

    def feed(self, reports: Iterable[tuple[str, Telemetry]]) -> None:
        """Of devices that the fleet knows; counted at the next look."""
        now = self._now()
        lost = sum(not self._pending.add(Waiting(*one, now)) for one in reports)
        self._metrics.drift_doubts.labels("no_turn").inc(lost)

    def drain(self) -> None:
        """`run` ends after a last look."""
        self._drained.set()

    async def run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._drained.is_set()
            await self._look()
            await self._ask()
            if not is_last:
                await self._pause()

    async def state(
        self, kind: ScopeKind | None, name: str | None, model: str | None, after: str, limit: int
    ) -> DriftState:
        """A page of scopes, and the alarms that are on. Raises `Malformed` for another `after`."""
        async with self._turn:
            watch = self._watch
            found: tuple[list[ScopeState], str | None] = ([], None)
            if watch is not None:
                try:
                    found = await asyncio.to_thread(page, watch, kind, name, model, after, limit)
                except ValueError as error:
                    raise Malformed(
                        f"query: after is {after[:80]!r}; give what the page before gave"
                    ) from error
        alarms, _ = await self.alarms(is_on=True, after="", limit=_ALARMS_SHOWN)
        return DriftState(scopes=tuple(found[0]), alarms=tuple(alarms), next=found[1])

    async def alarms(
        self, *, is_on: bool | None, after: str, limit: int
    ) -> tuple[list[Alarm], str | None]:
        """The newest first, and after which one to go on."""
        return await asyncio.to_thread(
            self._keeping.alarms, is_on=is_on, after=after, limit=limit
        )  # fmt: skip

    async def alarm(self, alarm: str) -> Alarm:
        """Raises `Unknown`."""
        return await asyncio.to_thread(self._keeping.alarm, alarm)

    async def seen(self, alarm: str, comment: str, actor: str) -> Alarm:
        """Raises `Unknown`, `Malformed`."""
        found = await asyncio.to_thread(self._keeping.seen, alarm, comment, actor, self._now())
        self._wrote()
        return found

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._settings.look_s):
                await self._drained.wait()
        except TimeoutError:
            pass

    async def _look(self) -> None:
        reports = self._pending.take()
        began = time.monotonic()
        try:
            async with self._turn:
                changes = await asyncio.to_thread(self._turned, reports, self._now())
        except Unavailable as error:
            if self._said.admits("store", began) is not None:
                log.warning("store_away", extra={"why": str(error)})
            lost = self._pending.put_back(reports)
            self._metrics.drift_doubts.labels("no_turn").inc(lost)
            return
        self._metrics.drift_look_seconds.observe(time.monotonic() - began)
        self._count()
        for change in changes:
            alarm = change.alarm
            log.warning(
                "drift_opened" if isinstance(change, Opened) else "drift_closed",
                extra={"alarm": alarm.id, "kind": alarm.kind.value, "scope": alarm.scope.name,
                       "cause": alarm.cause.value, "words": alarm.words},
            )  # fmt: skip
        if changes:
            self._wrote()

    def _turned(self, reports: Sequence[Waiting], now: float) -> list[Change]:
        """On a thread. What could not be stored is stored with the next turn."""
        watch = self._opened(now)
        groups = self._keeping.groups_of({one.device for one in reports})
        for one in reports:
            if (group := groups.get(one.device)) is not None:
                watch.feed(one.device, group, one.report, one.at)
        self._compared_at = min(now, self._compared_at)  # the clock may be set back
        self._kept_at = min(now, self._kept_at)
        if now - self._compared_at >= _COMPARE_S:
            self._compare(watch)
            self._compared_at = now
        self._unsaved += watch.look(now)
        changes = self._unsaved
        if changes or now - self._kept_at >= _KEEP_S or self._drained.is_set():
            self._keeping.apply(changes, watch.to_record(), now, self._settings.alarms_kept)
            self._unsaved, self._kept_at = [], now
        return changes

    def _opened(self, now: float) -> Watch:
        """The watch, from what the store has of the one before it."""
        if self._watch is not None:
            return self._watch
        kept = self._keeping.kept()
        watch = Watch(self._settings)
        try:
            watch = Watch.from_record(self._settings, kept.record or '{"alarms":[],"peace":[]}')
        except (ValueError, KeyError, TypeError) as error:
            log.warning("drift_record_unreadable", extra={"why": str(error)[:200]})
        watch.board.replace(kept.alarms)  # the table is what people see
        self._watch, self._kept_at = watch, now
        return watch

    def _compare(self, watch: Watch) -> None:
        """Devices that have left the fleet are watched no more; some are in another group."""
        watched = [*watch.tracks.devices, *watch.tracks.recalled]
        groups = self._keeping.groups_of(watched)
        watch.forget(device for device in watched if device not in groups)
        for device, group in groups.items():
            watch.move(device, group)

    async def _ask(self) -> None:
        """The registry, for references of versions that devices have named. A version that it did not
        have and has now is watched by its features from then on.
        """
        watch = self._watch
        if watch is None:
            return
        due = self._references.due(watch.wanted, watch.known, self._now())[:_AT_ONCE]
        for found in await asyncio.gather(*(self._reference(of) for of in due)):
            if found is not None:
                async with self._turn:
                    await asyncio.to_thread(watch.know, found)

    async def _reference(self, of: Of) -> Reference | None:
        try:
            return await self._references.of(of, self._now())
        except HybridgeError as error:
            if self._said.admits(f"reference {of}", time.monotonic()) is not None:
                log.warning(
                    "reference_away",
                    extra={"model": of[0], "version": of[1], "why": str(error)[:500]},
                )
            return None

    def _count(self) -> None:
        watch = self._watch
        if watch is None:
            return
        tracks = watch.tracks
        self._metrics.drift_alarms.set(len(watch.board.alarms))
        self._metrics.drift_devices.set(len(tracks.devices))
        now = {**tracks.doubts, "alarm_without_room": watch.board.not_opened}
        for reason, count in now.items():
            self._metrics.drift_doubts.labels(reason).inc(count - self._doubts.get(reason, 0))
        self._doubts = dict(now)
        for device in tracks.other_schema:
            if self._said.admits(f"schema {device}", time.monotonic()) is not None:
                log.warning("sketch_of_another_schema", extra={"device": device})
