"""All devices and groups that are watched, and how a report changes it. Pure, and bounded."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final

from cloud.monitoring.drift.accuracy import AuditWindow
from cloud.monitoring.drift.counting import (
    Counted,
    Doubt,
    Increment,
    count,
    is_newer,
)
from cloud.monitoring.drift.reference import Reference
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.track import DeviceTrack, Found, GroupTrack, Of, Overdue
from cloud.monitoring.drift.window import DeviceWindow, GroupWindow, fitting
from shared.fleet.telemetry import Telemetry

_ONCE_MAX: Final = 4
"""A report counts in a window as so many windows' samples at most: what it says is old by then."""
_LOOKS_MISSED: Final = 3.0
"""So long without a look that nobody looked, and not that the looks are far apart."""
_OVERDUE_INTERVALS: Final = 2.0
_OVERDUE_MAX: Final = 10_000
"""Devices whose silence outlives a restart; of more, those that fell silent last."""


class Tracks:
    """`feed` is told reports; everything else looks."""

    def __init__(self, settings: DriftSettings) -> None:
        self._settings = settings
        self.references: dict[Of, Reference] = {}
        self.wanted: dict[Of, str] = {}
        """Versions that run somewhere and whose references are not known, the longest wanted first; and
        the device that named each, which has no other."""
        self.devices: dict[str, DeviceTrack] = {}
        self.groups: dict[tuple[str, Of], GroupTrack] = {}
        self.before: dict[tuple[str, Of], Found] = {}
        """`GroupTrack.found` of groups that were not heard yet since this began, or that had to make
        room; the oldest first."""
        self.recalled: dict[str, Overdue] = {}
        """Overdue before a restart, of versions whose references are not known yet."""
        self._since: float | None = None
        self._looked_at: float | None = None
        self.doubts: Counter[str] = Counter()
        self.other_schema: dict[str, None] = {}
        """The devices whose sketches are of another one, the newest last; at most a hundred."""

    def know(self, reference: Reference) -> None:
        """Windows of a version whose reference is another one from now on begin anew."""
        of = (reference.model, reference.version)
        self.wanted.pop(of, None)
        known = self.references.pop(of, None)
        while len(self.references) >= self._settings.references_max:
            self._drop_version(self._least_run())
        self.references[of] = reference
        if known is not None and known != reference:
            self._begin_anew(of)

    def overdue(self) -> list[Overdue]:
        """At the last look: who is dead is never heard again, and would not be missed after a restart."""
        now = self._looked_at
        late = [
            Overdue(one.name, one.group, one.of, now - one.heard_at, one.interval_s)
            for one in self.devices.values()
            if now is not None and now - one.heard_at > _OVERDUE_INTERVALS * one.interval_s
        ]  # fmt: skip
        every = [*late, *self.recalled.values()]
        return nsmallest(_OVERDUE_MAX, every, key=lambda one: one.silence_s)

    def recall(self, overdue: Iterable[Overdue]) -> None:
        """Before a restart they were; from the next look on they are, unless they are heard."""
        for one in overdue:
            self.recalled[one.name] = one
            if one.of not in self.references:
                self._want(one.of, one.name)

    def feed(self, device: str, group: str, telemetry: Telemetry, now: float) -> None:
        self.recalled.pop(device, None)
        tally = telemetry.tally
        of = (tally.model, tally.version)
        reference = self.references.get(of)
        if reference is None:
            self._want(of, device)
            self._heard(device, telemetry, now)
            return
        track = self.devices.get(device)
        meter = None if track is None else track.meter
        if meter is not None and not is_newer(meter, telemetry, now):
            self.doubts[Doubt.OLD] += 1
            return
        swaps = track is not None and track.of != of
        track = self._placed(device, group, of, reference, now)
        if track is None:
            self.doubts["no_room"] += 1
            self._heard(device, telemetry, now)
            return
        if swaps and meter is not None:
            meter.started = -1  # nothing of one version is taken from another's counts
        track.meter, counted = count(track.meter, telemetry, reference, now)
        self._doubt(device, counted)
        track.heard_at, track.interval_s = now, telemetry.interval_s
        group_track = self.groups[track.group, track.of]
        group_track.heard_at = now
        if counted.increment is not None:
            self._add(track, group_track, counted.increment)

    def forget(self, device: str) -> None:
        """It has left the fleet."""
        self.recalled.pop(device, None)
        track = self.devices.pop(device, None)
        self.other_schema.pop(device, None)
        if track is not None and (group := self.groups.get((track.group, track.of))) is not None:
            self._leave(group, device)

    def move(self, device: str, group: str) -> None:
        """It is in this group from now on; what it said before speaks for neither."""
        track = self.devices.get(device)
        if track is not None and track.group != group:
            self._place(track, group, track.of)
        if device in self.recalled and self.recalled[device].group != group:
            del self.recalled[device]

    def begin_devices_anew(self, of: Of, group: str | None = None) -> None:
        """What its devices have said so far is over; None: the devices of all groups."""
        width = self.references[of].width if of in self.references else 0
        one = self.groups.get((group, of)) if group is not None else None
        groups = self.of_version(of) if group is None else () if one is None else (one,)
        for track in (track for one in groups for track in one.members.values()):
            track.window = DeviceWindow(width)
            track.is_changed = False

    def found(self) -> dict[tuple[str, Of], Found]:
        """About each group and version, be it from before this began; the longest unheard first."""
        return {**self.before, **{key: one.found for key, one in self.groups.items()}}

    def versions(self) -> Mapping[tuple[str, str], Sequence[tuple[Of, Found]]]:
        """What was found, by group and model."""
        versions: dict[tuple[str, str], list[tuple[Of, Found]]] = {}
        for (group, of), found in self.found().items():
            versions.setdefault((group, of[0]), []).append((of, found))
        return versions

    def of_version(self, of: Of) -> Iterator[GroupTrack]:
        return (one for (_, its), one in self.groups.items() if its == of)

    def silent(self, now: float) -> dict[tuple[str, Of], list[str]]:
        """Devices that are, by group and version; those that are silent for very long are forgotten."""
        self._set_clock(now)
        self._place_recalled(now)
        settings = self._settings
        found: dict[tuple[str, Of], list[str]] = {}
        gone: list[str] = []
        for name, track in self.devices.items():
            silence = now - track.heard_at
            if silence <= settings.silent_s_min:
                continue
            silent_s = max(settings.silent_s_min, settings.silent_intervals * track.interval_s)
            if silence > max(settings.forget_s, 2 * silent_s):
                gone.append(name)
            elif silence > silent_s:
                found.setdefault((track.group, track.of), []).append(name)
        for name in gone:
            self.forget(name)
        self._leave_out(found)
        return found

    def _set_clock(self, now: float) -> None:
        """What lies in the future has just happened: the clock was set back. Time without a look is no
        silence: the process stood still, or the clock was set ahead.
        """
        away = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        if 0 <= away <= max(self._settings.silent_s_min, _LOOKS_MISSED * self._settings.look_s):
            return
        self._since = None if self._since is None else min(now, self._since)
        every: list[DeviceTrack | GroupTrack] = [*self.devices.values(), *self.groups.values()]
        for one in every:
            one.heard_at = min(now, one.heard_at + max(0.0, away))

    def _place_recalled(self, now: float) -> None:
        for name, one in list(self.recalled.items()):
            if (reference := self.references.get(one.of)) is not None:
                del self.recalled[name]
                track = self._placed(name, one.group, one.of, reference, now - one.silence_s)
                if track is not None:
                    track.interval_s = one.interval_s

    def _leave_out(self, silent: Mapping[tuple[str, Of], Sequence[str]]) -> None:
        """What silent devices said is no news of a group in which others speak."""
        for key, group in self.groups.items():
            names = silent.get(key, ())
            group.silent = len(names)
            for name in names if len(names) < group.devices else ():
                group.window.forget(name)
                group.audits.forget(name)

    def drop_empty(self, now: float) -> None:
        """Groups in which nobody runs the version any more, for as long as devices are remembered."""
        gone = [
            key for key, one in self.groups.items()
            if one.devices <= 0 and now - one.heard_at > self._settings.forget_s
        ]  # fmt: skip
        for key in gone:
            del self.groups[key]
        self._since = now if self._since is None else self._since
        for key, one in list(self.before.items()):
            left_at = self._since if one.left_at is None else one.left_at
            if now - left_at > self._settings.forget_s:
                del self.before[key]

    def _want(self, of: Of, device: str) -> None:
        if of in self.wanted:
            return
        for other in [one for one, by in self.wanted.items() if by == device]:
            del self.wanted[other]
        if len(self.wanted) < self._settings.references_max:
            self.wanted[of] = device

    def _heard(self, device: str, telemetry: Telemetry, now: float) -> None:
        if (track := self.devices.get(device)) is not None:
            track.heard_at, track.interval_s = now, telemetry.interval_s

    def _placed(
        self, device: str, group: str, of: Of, reference: Reference, now: float
    ) -> DeviceTrack | None:
        """None: there is no room."""
        track = self.devices.get(device)
        is_new = track is None
        if track is None:
            if len(self.devices) >= self._settings.devices_max:
                return None
            track = DeviceTrack(device, "", of, None, DeviceWindow(reference.width), now, 0.0)
        moves = track.of != of
        if (is_new or moves or track.group != group) and not self._place(track, group, of):
            return None
        if moves:
            track.window = DeviceWindow(reference.width)
        self.devices[device] = track
        return track

    def _place(self, track: DeviceTrack, group: str, of: Of) -> bool:
        """False: there is no room for another group."""
        new = self._group(group, of)
        if new is None:
            return False
        old = self.groups.get((track.group, track.of))
        if old is not None:
            self._leave(old, track.name)
        new.devices += 1
        new.members[track.name] = track
        new.heard_at = max(new.heard_at, track.heard_at)
        track.group, track.of = group, of
        return True

    def _leave(self, group: GroupTrack, device: str) -> None:
        group.devices -= 1
        del group.members[device]
        group.window.forget(device)
        group.audits.forget(device)

    def _group(self, group: str, of: Of) -> GroupTrack | None:
        found = self.groups.get((group, of))
        if found is None:
            if len(self.groups) >= self._settings.groups_max and not self._make_room():
                return None
            found = self.groups[group, of] = GroupTrack(
                group, of, GroupWindow(self._settings.window_samples),
                AuditWindow(self._settings.audits_kept),
                found=self.before.pop((group, of), Found()),
            )  # fmt: skip
        return found

    def _make_room(self) -> bool:
        """Versions that no device runs go first, the longest unheard of."""
        empty = [(one.heard_at, key) for key, one in self.groups.items() if one.devices <= 0]
        if not empty:
            return False
        self._drop_group(min(empty)[1])
        return True

    def _drop_group(self, key: tuple[str, Of]) -> None:
        """What was found about it tells what another version brings, but one that anybody can make up."""
        gone, is_made_up = self.groups.pop(key), not self.references[key[1]].features
        if not is_made_up and (gone.found.at_peace or gone.found.drifts):
            gone.found.left_at = gone.heard_at
            self.before[key] = gone.found
            if len(self.before) > self._settings.groups_max:
                del self.before[next(iter(self.before))]

    def _add(self, track: DeviceTrack, group: GroupTrack, new: Increment) -> None:
        if new.samples:
            row = fitting(new.row, _ONCE_MAX * self._settings.window_samples)
            least = self._settings.window_samples
            track.window.add(row, least)
            group.window.add(track.name, row, group.speaking)
            track.is_changed = group.is_changed = True
        if new.audits or new.escalated or new.escalated_answered:
            group.audits.add(track.name, new, group.speaking)
            group.is_audited = True

    def _doubt(self, device: str, counted: Counted) -> None:
        for doubt in counted.doubts:
            self.doubts[doubt] += 1
        if Doubt.SCHEMA in counted.doubts:
            self.other_schema.pop(device, None)
            self.other_schema[device] = None
            if len(self.other_schema) > 100:
                self.other_schema.pop(next(iter(self.other_schema)))
        else:
            self.other_schema.pop(device, None)

    def _least_run(self) -> Of:
        """Of the versions known, first of those that the registry does not have: devices that claim one
        each do not drive out what the fleet runs, or ran.
        """
        runs = dict.fromkeys(self.references, 0)
        for (_, of), group in self.groups.items():
            runs[of] += group.devices
        return min(runs, key=lambda of: (bool(self.references[of].features), runs[of]))

    def _begin_anew(self, of: Of) -> None:
        self.begin_devices_anew(of)
        for group in self.of_version(of):
            group.window = GroupWindow(self._settings.window_samples)
            group.is_changed, group.seen = False, None

    def _drop_version(self, of: Of) -> None:
        for name in [name for one in self.of_version(of) for name in one.members]:
            self.forget(name)
        for key in [key for key in self.groups if key[1] == of]:
            self._drop_group(key)
        del self.references[of]


def named(devices: Iterable[str]) -> tuple[str, ...]:
    """The first hundred, in order."""
    return tuple(sorted(devices)[:100])
