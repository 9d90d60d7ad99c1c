"""Drift over a whole fleet: reports go in, alarms come out. Pure; the caller has the clock.

    watch = Watch(settings)
    watch.know(reference)                      # of each version in `wanted`
    watch.feed(device, group, telemetry, now)
    for change in watch.look(now): ...         # Opened | Closed, each settings.look_s

Not thread-safe. Alarms outlive it (`to_record`); windows fill again from what devices say next.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import NormalDist

from cloud.monitoring.drift import cause as causes
from cloud.monitoring.drift import evidence, opened, silence
from cloud.monitoring.drift.accuracy import Strata, estimate
from cloud.monitoring.drift.alarms import Reading, spent
from cloud.monitoring.drift.board import FLEET, Board, Change, scope_of
from cloud.monitoring.drift.bounds import KINDS
from cloud.monitoring.drift.cause import Circumstances
from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from cloud.monitoring.drift.evidence import Evidence
from cloud.monitoring.drift.reference import Reference
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.track import DeviceTrack, Found, GroupTrack, Of, Overdue
from cloud.monitoring.drift.tracks import Tracks
from shared.fleet.telemetry import Telemetry


class Watch:
    def __init__(self, settings: DriftSettings) -> None:
        self._settings = settings
        self.tracks = Tracks(settings)
        self.board = Board(settings, self.tracks)
        self._versions: Mapping[tuple[str, str], Sequence[tuple[Of, Found]]] = {}
        """What was found until this look, by group and model."""

    @property
    def wanted(self) -> tuple[Of, ...]:
        """Versions that run somewhere and whose references are not known."""
        return tuple(self.tracks.wanted)

    @property
    def known(self) -> tuple[Of, ...]:
        """Versions whose references are known, be they without features."""
        return tuple(self.tracks.references)

    def know(self, reference: Reference) -> None:
        self.tracks.know(reference)
        self.board.drop_idle()

    def feed(self, device: str, group: str, telemetry: Telemetry, now: float) -> None:
        """A report of a device that the fleet knows, and its group."""
        self.tracks.feed(device, group, telemetry, now)

    def forget(self, devices: Iterable[str]) -> None:
        """They have left the fleet."""
        for device in devices:
            self.tracks.forget(device)
            self.board.left(device)

    def move(self, device: str, group: str) -> None:
        """It is in this group from now on."""
        self.tracks.move(device, group)

    def look(self, now: float) -> list[Change]:
        """What opens and closes now; groups before their devices."""
        changes: list[Change] = []
        self._versions = self.tracks.versions()
        for of, reference in list(self.tracks.references.items()):
            groups = list(self.tracks.of_version(of))
            moved = self._look_at_groups(reference, groups)
            self._look_at_fleet(reference, groups, moved, now, changes)
            for group, seen in moved:
                self._judge_group(group, seen, now, changes)
            self._look_at_devices(reference, now, changes)
            self._look_at_accuracy(reference, groups, now, changes)
        silence.look(self.tracks, self.board, self._settings, now, changes)
        self.tracks.drop_empty(now)
        self.board.tidy(now, changes)
        return changes

    def to_record(self) -> str:
        """The alarms that are on, with which versions groups were at peace, or drifted, and who was silent
        or late at the last look, for how many seconds. JSON.
        """
        found = self.tracks.found()
        alarms = [alarm.model_dump(mode="json") for alarm in self.board.alarms.values()]
        return json.dumps({
            "alarms": alarms,
            "unheard_s": self.board.unheard_s,
            "peace": [[at, *of, sorted(one.at_peace)] for (at, of), one in found.items()],
            "drifts": [[at, *of, sorted(one.drifts)] for (at, of), one in found.items()],
            "overdue": [
                [one.name, one.group, *one.of, round(one.silence_s, 1), one.interval_s]
                for one in self.tracks.overdue()
            ],
        })  # fmt: skip

    @classmethod
    def from_record(cls, settings: DriftSettings, record: str) -> "Watch":
        """Raises `ValueError` for what is no record."""
        watch = cls(settings)
        found = json.loads(record)
        watch.board.restore(
            (Alarm.model_validate(one) for one in found["alarms"]), found.get("unheard_s", {})
        )
        drifts = {(at, *of): kinds for at, *of, kinds in found.get("drifts", ())}
        for at, model, version, kinds in found["peace"][-settings.groups_max :]:
            watch.tracks.before[at, (model, version)] = Found(
                {Kind(kind) for kind in kinds},
                {Kind(kind) for kind in drifts.get((at, model, version), ())},
            )
        watch.tracks.recall(
            Overdue(name, group, (model, version), float(silence_s), float(interval_s))
            for name, group, model, version, silence_s, interval_s in found.get("overdue", ())
        )
        return watch

    def _look_at_groups(
        self, reference: Reference, groups: list[GroupTrack]
    ) -> list[tuple[GroupTrack, Evidence]]:
        """Those with new samples, and what they show."""
        changed = [one for one in groups if one.is_changed]
        if not changed:
            return []
        found = evidence.of_groups(
            reference, changed, self._settings, len(self.tracks.groups), self.board.watches_group
        )  # fmt: skip
        moved = []
        for group, seen in zip(changed, found, strict=True):
            group.is_changed, group.seen = False, seen
            if seen is not None:
                moved.append((group, seen))
        return moved

    def _look_at_fleet(
        self, reference: Reference, groups: list[GroupTrack],
        moved: list[tuple[GroupTrack, Evidence]], now: float, changes: list[Change],
    ) -> None:  # fmt: skip
        if not moved:
            return
        every = [
            (one, seen) for one in groups
            if one.devices > 0 and (seen := one.seen) is not None
        ]  # fmt: skip
        seen = evidence.of_fleet(reference, every, self._settings)
        if seen is None:
            return
        scope = scope_of("fleet", FLEET, (reference.model, reference.version))
        for kind in KINDS:
            at = Circumstances(
                len(seen.members.that_drift(kind)), seen.members.count,
                was_clean=any(kind in one.found.at_peace for one, _ in every),
                other_is_clean=seen.readings[kind].is_over
                and any(self._other_is_clean(one, kind) for one, _ in every),
            )  # fmt: skip
            make = partial(opened.by_evidence, kind, scope, causes.of_many(at), seen, now)
            self.board.step(kind, scope, seen.readings[kind], make, now, changes)

    def _judge_group(
        self, group: GroupTrack, seen: Evidence, now: float, changes: list[Change]
    ) -> None:
        scope = scope_of("group", group.name, group.of)
        for kind in KINDS:
            reading = seen.readings[kind]
            self._remember(group, kind, reading)
            cause = self._cause(group, kind, seen) if reading.is_over else Cause.UNKNOWN
            make = partial(opened.by_evidence, kind, scope, cause, seen, now)
            self.board.step(kind, scope, reading, make, now, changes)

    def _look_at_devices(self, reference: Reference, now: float, changes: list[Change]) -> None:
        of = (reference.model, reference.version)
        changed = [
            one for group in self.tracks.of_version(of) for one in group.members.values()
            if one.is_changed
        ]  # fmt: skip
        if not changed:
            return
        for track in changed:
            track.is_changed = False
        found = list(evidence.of_devices(
            reference, changed, self._settings, len(self.tracks.devices), self.board.watches_device
        ))  # fmt: skip
        alike = self._alike(of, {track.name for track in changed}, found)
        for track, seen in found:
            for kind in KINDS:
                self._judge_device(track, kind, seen, alike[track.group, kind], now, changes)

    def _alike(
        self, of: Of, looked_at: set[str], found: list[tuple[DeviceTrack, Evidence]]
    ) -> Counter[tuple[str, Kind]]:
        """Devices of each group that drift in each way, by this look or by their last one: most have
        not reported since the look before.
        """
        drifting = {
            (track.name, kind) for track, seen in found for kind in KINDS
            if seen.readings[kind].is_over
        }  # fmt: skip
        drifting |= {
            (name, kind) for name, kind, is_on in self.board.devices(of)
            if is_on or name not in looked_at
        }  # fmt: skip
        return Counter(
            (group, kind) for name, kind in drifting
            if (group := self.board.group_of(name)) is not None
        )  # fmt: skip

    def _judge_device(
        self, track: DeviceTrack, kind: Kind, seen: Evidence, alike: int, now: float,
        changes: list[Change],
    ) -> None:  # fmt: skip
        """`alike`: devices of its group that drift in this way."""
        scope, reading = scope_of("device", track.name, track.of), seen.readings[kind]
        if not reading.is_over and not self.board.watches(kind, scope):
            return
        if self.board.group_has_it(track, kind):
            reading = Reading(is_gone=reading.is_gone)  # named together, not one by one
        devices = self.tracks.groups[track.group, track.of].devices
        at = Circumstances(max(alike, 1), devices, others=devices - 1)
        make = partial(opened.by_evidence, kind, scope, causes.of_device(at), seen, now)
        self.board.step(kind, scope, reading, make, now, changes)

    def _look_at_accuracy(
        self, reference: Reference, groups: list[GroupTrack], now: float, changes: list[Change]
    ) -> None:
        if reference.expected_accuracy is None:
            return
        moved = [one for one in groups if one.is_audited]
        z = -NormalDist().inv_cdf(spent(self._settings, len(self.tracks.groups), 1))
        for group in moved:
            group.is_audited = False
            scope = scope_of("group", group.name, group.of)
            shown = estimate(group.audits.total(), reference.expected_accuracy)
            reading = self._accuracy_reading(group, scope, reference, z)
            if shown is None or reading is None:
                continue
            self._remember(group, Kind.ACCURACY, reading)
            cause = self._accuracy_cause(group) if reading.is_over else Cause.UNKNOWN
            make = partial(opened.by_audits, scope, cause, shown, now)
            self.board.step(Kind.ACCURACY, scope, reading, make, now, changes)

    def _accuracy_reading(
        self, group: GroupTrack, scope: Scope, reference: Reference, z: float
    ) -> Reading | None:
        """Of several devices, what stands without any one of them: as their windows."""
        whole = self._reading_of(group.audits.total(), reference, z)
        if whole is None or group.speaking <= 1:
            return whole
        if not whole.is_over and not self.board.watches(Kind.ACCURACY, scope):
            return whole
        rest = [self._reading_of(one, reference, z) for one in group.audits.without_each()]
        return Reading(
            is_over=all(one is not None and one.is_over for one in rest),
            is_gone=whole.is_gone or any(one is not None and one.is_gone for one in rest),
        )

    def _reading_of(self, total: Strata, reference: Reference, z: float) -> Reading | None:
        promised, settings = reference.expected_accuracy, self._settings
        found = estimate(total, promised, z)
        if found is None or promised is None or found.audits < settings.audits_min:
            return None
        least = promised - settings.accuracy_margin
        return Reading(found.high < least, False, found.estimate >= least)

    def _remember(self, group: GroupTrack, kind: Kind, reading: Reading) -> None:
        """As an alarm closes: one look at few samples would miss what drifts."""
        group.calm[kind] = group.calm[kind] + 1 if reading.is_gone else 0
        if reading.is_over:
            group.found.drifts.add(kind)
        elif group.calm[kind] >= self._settings.looks_to_close:
            group.found.drifts.discard(kind)
            group.found.at_peace.add(kind)

    def _cause(self, group: GroupTrack, kind: Kind, seen: Evidence) -> Cause:
        members = seen.members
        return causes.of_many(
            Circumstances(
                len(members.that_drift(kind)), members.count,
                was_clean=kind in group.found.at_peace,
                other_is_clean=self._other_is_clean(group, kind),
                together=kind in members.together,
            )
        )  # fmt: skip

    def _accuracy_cause(self, group: GroupTrack) -> Cause:
        if self._other_is_clean(group, Kind.ACCURACY) and Kind.ACCURACY not in group.found.at_peace:
            return Cause.MODEL
        scope = scope_of("group", group.name, group.of)
        on = [self.board.alarms.get((kind, scope)) for kind in (Kind.INPUT, Kind.ANSWER)]
        return next((one.cause for one in on if one is not None), Cause.UNKNOWN)

    def _other_is_clean(self, group: GroupTrack, kind: Kind) -> bool:
        return any(one.is_clean(kind) for one in self._versions_beside(group))

    def _versions_beside(self, group: GroupTrack) -> Iterator[Found]:
        """What was found about them, be it before a restart."""
        for of, found in self._versions.get((group.name, group.of[0]), ()):
            if of != group.of:
                yield found
