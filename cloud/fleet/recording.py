"""What devices say, many messages in one transaction."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from cloud.fleet.bounds import is_device, utc_text
from cloud.fleet.heard import DeviceState, Heard, Refusal, Report, hear
from cloud.fleet.part import Part, grouping_of
from cloud.fleet.selector import Facts
from cloud.fleet.store import device_rows, report_rows
from cloud.fleet.store.event_rows import Line


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of a batch."""

    accepted: tuple[tuple[str, Heard], ...]
    """In order; without copies, older reports and what was refused."""
    refused: Mapping[Refusal, int]
    strangers: frozenset[str]
    """Devices that were refused as a whole: unknown, revoked, or there is no room."""
    new: tuple[str, ...]
    """Devices that are in the fleet from now on."""
    quarantined: tuple[str, ...]
    """For coming and going too often, just now."""
    returned: tuple[str, ...]
    """Whose quarantine is over."""


@dataclass(slots=True)
class _Batch:
    states: dict[str, DeviceState]
    accepted: list[tuple[str, Heard]] = field(default_factory=list)
    refused: Counter[Refusal] = field(default_factory=Counter)
    strangers: set[str] = field(default_factory=set)
    new: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


class Recording(Part):
    """Raises `Unavailable`; what a device sends is counted, never raised."""

    def record(self, batch: Sequence[tuple[str, Heard]], now: float) -> Recorded:
        """Keep it, by device. `now` is the region's clock; one transaction, also when it is empty:
        quarantines end here.
        """
        return self._database.write(lambda connection: self._record(connection, batch, now))

    def _record(
        self, connection: Connection, batch: Sequence[tuple[str, Heard]], now: float
    ) -> Recorded:
        returned = self._end_quarantines(connection, now)
        devices = dict.fromkeys(device for device, _ in batch if is_device(device))
        work = _Batch(device_rows.states(connection, devices))
        self._add_new(connection, devices, work)
        before = dict(work.states)
        reports: dict[tuple[str, type[Report]], Report] = {}
        for device, heard in batch:
            if (state := work.states.get(device)) is None:
                work.strangers.add(device)
                is_full = not self._settings.needs_enrolment and is_device(device)
                work.refused["no room" if is_full else "unknown device"] += 1
                continue
            after = hear(state, heard, now, self._settings.presence)
            if isinstance(after, str):
                work.refused[after] += 1
                if after == "revoked":
                    work.strangers.add(device)
                continue
            work.accepted.append((device, heard))
            work.states[device] = after
            if after.quarantined_at != state.quarantined_at:
                self._note_quarantine(device, after, work)
            if isinstance(heard, Report):
                reports[device, type(heard)] = heard
        self._keep(connection, before, work.states, now)
        report_rows.keep(connection, [(device, one) for (device, _), one in reports.items()])
        self.log(connection, now, *work.lines)
        return Recorded(
            tuple(work.accepted), dict(work.refused), frozenset(work.strangers), tuple(work.new),
            tuple(work.quarantined), returned,
        )  # fmt: skip

    def _add_new(self, connection: Connection, devices: Mapping[str, None], work: _Batch) -> None:
        new = [one for one in devices if one not in work.states]
        if self._settings.needs_enrolment or not new:
            return
        room = self._settings.devices_max - device_rows.count(connection)
        grouping = grouping_of(connection)
        new = new[: max(0, room)]
        device_rows.add(
            connection, [(device, {}, grouping.group_of(Facts(device))) for device in new]
        )
        for device in new:
            work.states[device] = DeviceState(unsettled=True)
            work.new.append(device)
            work.lines.append(Line("device_new", "device", "it came by itself", device))

    def _note_quarantine(self, device: str, state: DeviceState, work: _Batch) -> None:
        work.quarantined.append(device)
        until = utc_text(state.quarantined_until or 0.0)
        words = f"{state.quarantine_why}: time {state.presence.strikes}, until {until}"
        work.lines.append(Line("quarantined", "fleet", words, device))

    def _keep(
        self, connection: Connection, before: Mapping[str, DeviceState],
        after: Mapping[str, DeviceState], now: float,
    ) -> None:  # fmt: skip
        seen, changed = [], {}
        for device, state in after.items():
            if state == before[device]:
                continue
            if replace(state, last_seen=before[device].last_seen) == before[device]:
                seen.append(device)
            else:
                changed[device] = state
        device_rows.keep_last_seen(connection, seen, now)
        device_rows.keep_states(connection, changed)

    def _end_quarantines(self, connection: Connection, now: float) -> tuple[str, ...]:
        over = device_rows.ending_quarantines(connection, now)
        states = device_rows.states(connection, over)
        device_rows.keep_states(connection, {
            device: replace(
                state, quarantined_at=None, quarantined_until=None, quarantine_why="",
                unsettled=True,
            )
            for device, state in states.items()
        })  # fmt: skip
        self.log(
            connection, now,
            *(Line("quarantine_ended", "fleet", "its time is over", device) for device in over),
        )  # fmt: skip
        return tuple(over)
