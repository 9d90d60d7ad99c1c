"""Devices that were silent before a restart and have not been heard since: they are silent still. Pure.

What is watched begins anew with the process, and a device that is dead never comes into it by itself:
without these a group would have no silent devices any more, and its alarm would close.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cloud.monitoring.drift.documents import Alarm, Kind
from cloud.monitoring.drift.track import Of

At = tuple[str, Of]
"""A group and its version."""


@dataclass(slots=True)
class _Named:
    devices: set[str]
    weight: float
    """So many devices each of them stands for: an alarm names the first hundred."""
    opened_at: float


@dataclass(slots=True)
class Unheard:
    """From alarms of groups that were on; a device leaves when it is heard, or has left its group."""

    _groups: dict[At, _Named] = field(default_factory=dict)

    @property
    def devices(self) -> Iterator[str]:
        return (device for one in self._groups.values() for device in one.devices)

    @property
    def counts(self) -> Mapping[At, float]:
        """Of devices, where there are any."""
        return MappingProxyType({
            at: len(one.devices) * one.weight for at, one in self._groups.items()
        })  # fmt: skip

    def restore(self, alarms: Iterable[Alarm]) -> None:
        for alarm in alarms:
            scope = alarm.scope
            if alarm.kind is Kind.STALE and scope.kind == "group" and alarm.devices:
                weight = max(alarm.devices_count, len(alarm.devices)) / len(alarm.devices)
                of = (scope.model, scope.version)
                self._groups[scope.name, of] = _Named(set(alarm.devices), weight, alarm.opened_at)

    def clear(self) -> None:
        self._groups.clear()

    def closed(self, at: At) -> None:
        """Its alarm is."""
        self._groups.pop(at, None)

    def left(self, device: str, stays_in: str | None = None) -> None:
        """It is in no group any more, or in this one."""
        for (group, _), one in self._groups.items():
            if group != stays_in:
                one.devices.discard(device)
        self._drop_empty()

    def look(self, heard: Container[str], now: float, forget_s: float) -> None:
        """`heard`: devices that were, since the restart. Those silent for `forget_s` are forgotten."""
        for one in self._groups.values():
            is_old = now - one.opened_at > forget_s
            one.devices = {name for name in one.devices if not is_old and name not in heard}
        self._drop_empty()

    def _drop_empty(self) -> None:
        self._groups = {at: one for at, one in self._groups.items() if one.devices}
