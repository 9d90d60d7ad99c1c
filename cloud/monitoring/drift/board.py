"""Which alarms are on: opened, closed, and closed where another one has taken them over. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from cloud.monitoring.drift import alarms, opened
from cloud.monitoring.drift.alarms import Gauge, Reading, Turn
from cloud.monitoring.drift.bounds import KINDS
from cloud.monitoring.drift.documents import Alarm, Kind, Scope
from cloud.monitoring.drift.opened import Closed, Opened
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.track import DeviceTrack, GroupTrack, Of
from cloud.monitoring.drift.tracks import Tracks

FLEET: Final = "fleet"
"""Name of its scope."""
Change = Opened | Closed
Key = tuple[Kind, Scope]


class Board:
    """Gauges of scopes about which there is something to say, and the alarms that are on."""

    def __init__(self, settings: DriftSettings, tracks: Tracks) -> None:
        self._settings, self._tracks = settings, tracks
        self.alarms: dict[Key, Alarm] = {}
        self.not_opened = 0
        """Alarms without room."""
        self._gauges: dict[Key, Gauge] = {}
        self._watched: set[str] = set()
        """Devices that have a gauge."""
        self._left: set[str] = set()
        self._since: float | None = None
        self._unheard_s: dict[Key, float] = {}
        """For how long alarms that are on have had nobody who was heard, restarts not counted."""
        self._tidied_at: float | None = None

    def watches(self, kind: Kind, scope: Scope) -> bool:
        """An alarm of it is on, or about to be."""
        return (kind, scope) in self._gauges

    def watches_device(self, track: DeviceTrack) -> bool:
        """Anything of it."""
        return track.name in self._watched

    def devices(self, of: Of) -> Iterator[tuple[str, Kind, bool]]:
        """Those about which there is something, in what kind, and whether its alarm is on."""
        for (kind, scope), gauge in self._gauges.items():
            if scope.kind == "device" and (scope.model, scope.version) == of:
                yield scope.name, kind, gauge.is_on

    def watches_group(self, track: GroupTrack) -> bool:
        """An alarm of its windows is on."""
        scope = scope_of("group", track.name, track.of)
        return any((kind, scope) in self.alarms for kind in KINDS)

    def left(self, device: str) -> None:
        """It has left the fleet; `tidy` ends its alarms."""
        self._left.add(device)

    def replace(self, alarms: Iterable[Alarm]) -> None:
        """These are on, and no others."""
        for key in self.alarms:
            self._gauges.pop(key, None)
        self.alarms.clear()
        self.restore(alarms)

    @property
    def unheard_s(self) -> dict[str, float]:
        """By id of those alarms of whose scope nothing is heard: for so long. `restore` takes it."""
        return {
            self.alarms[key].id: unheard for key, unheard in self._unheard_s.items()
            if key in self.alarms and unheard > 0
        }  # fmt: skip

    def restore(
        self, alarms: Iterable[Alarm], unheard_s: Mapping[str, float] = MappingProxyType({})
    ) -> None:
        """They are on since before: none of them opens twice."""
        for alarm in alarms:
            self.alarms[alarm.kind, alarm.scope] = alarm
            self._gauges[alarm.kind, alarm.scope] = Gauge(is_on=True)
            self._watched.add(alarm.scope.name)
            if alarm.id in unheard_s:
                self._unheard_s[alarm.kind, alarm.scope] = unheard_s[alarm.id]

    def step(
        self, kind: Kind, scope: Scope, reading: Reading, make: Callable[[], Alarm], now: float,
        changes: list[Change],
    ) -> None:  # fmt: skip
        """One look. `make`: the alarm, as it would open."""
        key = (kind, scope)
        if kind is Kind.ANSWER and (Kind.INPUT, scope) in self.alarms:
            reading = Reading(is_gone=reading.is_gone)  # it follows from that
        before, most = self._gauges.get(key, Gauge()), self._settings.looks_to_open
        gauge, turn = alarms.step(before, reading, self._settings)
        if turn is Turn.OPENS:
            if len(self.alarms) >= self._settings.alarms_max:
                self.not_opened += before.over < most  # once, however often it is found again
                self._gauges[key] = Gauge(over=most)
                return
            alarm = self.alarms[key] = make()
            self._gauges[key] = gauge
            changes.append(Opened(alarm))
            self._subsume(alarm, now, changes)
        if turn is Turn.CLOSES:
            self.close(key, "it is as before", now, changes)
            if scope.kind == "group" and kind in KINDS:
                # its devices' windows are longer, and hold what is over
                self._tracks.begin_devices_anew((scope.model, scope.version), scope.name)
        elif gauge != Gauge():
            self._gauges[key] = gauge
        else:
            self._gauges.pop(key, None)

    def close(self, key: Key, why: str, now: float, changes: list[Change]) -> None:
        self._gauges.pop(key, None)
        if (alarm := self.alarms.pop(key, None)) is not None:
            changes.append(opened.closed(alarm, why, now))

    def _subsume(self, alarm: Alarm, now: float, changes: list[Change]) -> None:
        """What has become a part of another alarm is not one by itself any more."""
        kind, scope = alarm.kind, alarm.scope
        if kind is Kind.INPUT:
            self.close((Kind.ANSWER, scope), f"inputs drift: {alarm.id}", now, changes)
        if scope.kind != "group":
            return
        for key in [key for key in self.alarms if key[1].kind == "device"]:
            its, own = key
            same = its is kind or (its is Kind.ANSWER and kind is Kind.INPUT)
            if (
                same
                and (own.model, own.version) == (scope.model, scope.version)
                and self.group_of(own.name) == scope.name
            ):
                self.close(key, f"its group drifts together: {alarm.id}", now, changes)

    def group_has_it(self, track: DeviceTrack, kind: Kind) -> bool:
        """The group's alarm of this kind is on, or about to be."""
        scope = scope_of("group", track.group, track.of)
        kinds = {kind, Kind.INPUT} if kind is Kind.ANSWER else {kind}
        return any((one, scope) in self._gauges for one in kinds)

    def group_of(self, device: str) -> str | None:
        track = self._tracks.devices.get(device)
        return None if track is None else track.group

    def tidy(self, now: float, changes: list[Change]) -> None:
        """Alarms of versions that a group or the fleet has left, and of devices and groups that are gone."""
        self._since = now if self._since is None else min(now, self._since)  # a clock set back
        passed = 0.0 if self._tidied_at is None else max(0.0, now - self._tidied_at)
        self._tidied_at = now
        unheard, self._unheard_s = self._unheard_s, {}
        for key in list(self.alarms):
            scope = key[1]
            of = (scope.model, scope.version)
            group = self._tracks.groups.get((scope.name, of)) if scope.kind == "group" else None
            device = self._tracks.devices.get(scope.name) if scope.kind == "device" else None
            groups = list(self._tracks.of_version(of)) if scope.kind == "fleet" else []
            if groups and self._is_no_fleet(of, now):
                self.close(key, "fewer than two groups run this version now", now, changes)
            elif group is not None and group.devices <= 0:
                self.close(key, "no device of it runs this version any more", now, changes)
            elif device is not None and device.of != of:
                self.close(key, "it runs another version", now, changes)
            elif scope.name in self._left and scope.kind == "device":
                self.close(key, "it has left the fleet", now, changes)
            elif group is None and device is None and not groups:
                self._unheard_s[key] = unheard.get(key, 0.0) + passed
                if self._unheard_s[key] > self._settings.forget_s:
                    self.close(key, "nothing was heard of it any more", now, changes)
        self._left.clear()
        self.drop_idle()
        self._watched = {scope.name for _, scope in self._gauges if scope.kind == "device"}

    def drop_idle(self) -> None:
        """What is about to be an alarm by windows that are gone, or have begun anew since: nothing comes
        of it any more, and a group's would hold back those of its devices.
        """
        for key in [key for key in self._gauges if key not in self.alarms]:
            if not self._is_looked_at(*key):
                del self._gauges[key]

    def _is_looked_at(self, kind: Kind, scope: Scope) -> bool:
        of = (scope.model, scope.version)
        if scope.kind == "device":
            device = self._tracks.devices.get(scope.name)
            return device is not None and device.of == of and not device.window.is_empty
        groups = [
            one for one in self._tracks.of_version(of)
            if one.devices > 0 and (one.seen is not None or kind not in KINDS)
        ]  # fmt: skip
        if scope.kind == "fleet":
            return len(groups) > 1
        return any(one.name == scope.name for one in groups)

    def _is_no_fleet(self, of: Of, now: float) -> bool:
        running = {one.name for one in self._tracks.of_version(of) if one.devices > 0}
        return not running or (len(running) == 1 and not self.is_new(now))

    def is_new(self, now: float) -> bool:
        """Soon after a start most groups have not been heard yet."""
        return self._since is None or now - self._since <= self._settings.silent_s_min


def scope_of(kind: str, name: str, of: Of) -> Scope:
    return Scope.model_validate({"kind": kind, "name": name, "model": of[0], "version": of[1]})
