"""The newest samples of a device and of a group, as sums that are bounded. Pure.

A device's window is three rows of 16-bit counters: with 99 a row, 60 MB for 100,000 of them. A
group's has the newest reports of its devices, of which none has more than its part: who floods or
lies does not speak for the others, and what remains without any one of them can be looked at by
itself. The fleet's window is the sum of its groups'.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.monitoring.drift.reference import SAMPLES, Row

SLICES: Final = 3
PARTS: Final = 5
"""A device has at most a fifth of what a group's window must hold, where there are so many devices."""
Kept = NDArray[np.uint16]
Floats = NDArray[np.float64]


def fitting(row: Row, samples_max: int) -> Kept:
    """The row as windows keep it, scaled down where it holds more than `samples_max`, of which 16 bits
    hold 65,535.
    """
    samples = int(row[SAMPLES])
    if samples > samples_max:
        row = (row * (samples_max / samples)).astype(np.uint32)
    return row.astype(np.uint16)


class DeviceWindow:
    """The newest `least` samples or up to half as many more, and the rest of a report."""

    __slots__ = ("_at", "_rows")

    def __init__(self, width: int) -> None:
        self._rows = np.zeros((SLICES, width), np.uint16)
        self._at = 0

    def add(self, row: Kept, least: int) -> None:
        """The samples of a row and half of `least` must fit into 16 bits: 65,535."""
        self._rows[self._at] += row
        if 2 * int(self._rows[self._at][SAMPLES]) >= least:
            self._at = (self._at + 1) % SLICES
            self._rows[self._at] = 0

    @property
    def is_empty(self) -> bool:
        return not self._rows[:, SAMPLES].any()

    def total(self) -> NDArray[np.uint32]:
        return np.asarray(self._rows.sum(axis=0, dtype=np.uint32))


@dataclass(frozen=True, slots=True)
class Parts:
    """A group's window by device, each with no more than its part."""

    devices: tuple[str, ...]
    rows: Floats
    """[devices, width]."""
    samples: int
    """Before anything was cut down to its part."""

    @property
    def total(self) -> Floats:
        return np.asarray(self.rows.sum(axis=0))

    def without_each(self) -> Floats:
        """The total without each device in turn [devices, width]."""
        return self.total - self.rows


@dataclass(slots=True)
class _Entry:
    device: str
    row: Kept
    weight: int


class GroupWindow:
    """The newest reports of a group's devices. An entry has one sample or more, and devices do not
    keep more entries than their part needs, so there are at most about as many as `least`.
    """

    __slots__ = ("_by_device", "_entries", "_held", "_least", "_next", "_part", "_weights")

    def __init__(self, least: int) -> None:
        self._least = least
        self._entries: dict[int, _Entry] = {}
        """The oldest first."""
        self._by_device: dict[str, deque[int]] = {}
        self._weights: dict[str, int] = {}
        self._next = 0
        self._part = least
        """What one device may have, as devices were at the last report."""
        self._held = 0
        """Samples of all, none with more than its part."""

    def __len__(self) -> int:
        """Entries."""
        return len(self._entries)

    def add(self, device: str, row: Kept, devices: int) -> None:
        """`devices`: how many of the group run the version."""
        entry = _Entry(device, row, int(row[SAMPLES]))
        if not entry.weight:
            return
        self._divide(devices)
        self._entries[self._next] = entry
        own = self._by_device.setdefault(device, deque())
        own.append(self._next)
        self._weigh(device, entry.weight)
        self._next += 1
        while self._weights[device] - self._entries[own[0]].weight >= self._part:
            self._remove(own[0])
        while len(self._entries) > 1:
            oldest = next(iter(self._entries))
            first = self._entries[oldest]
            if self._held + self._change(first.device, -first.weight) < self._least:
                return
            self._remove(oldest)

    def part(self, devices: int) -> int:
        """Of the least that the window holds, what one device may have."""
        return -(-self._least // max(1, min(devices, PARTS)))

    def forget(self, device: str) -> None:
        for number in list(self._by_device.get(device, ())):
            self._remove(number)

    def parts(self, devices: int) -> Parts:
        """None has more than its part or the median device, whichever is more."""
        names = tuple(self._by_device)
        if not names:
            return Parts((), np.zeros((0, 0)), 0)
        rows = np.stack([
            np.sum([self._entries[number].row for number in self._by_device[name]], axis=0,
                   dtype=np.float64)
            for name in names
        ])  # fmt: skip
        weights = np.asarray([self._weights[name] for name in names], np.float64)
        middle = np.quantile(weights, 0.5, method="lower")  # of two, the quieter one
        most = max(float(self.part(devices)), float(middle))
        samples = int(rows[:, SAMPLES].sum())
        rows *= np.minimum(1.0, most / np.maximum(weights, 1.0))[:, None]
        return Parts(names, rows, samples)

    def _divide(self, devices: int) -> None:
        if (part := self.part(devices)) != self._part:
            self._part = part
            self._held = sum(min(one, part) for one in self._weights.values())

    def _weigh(self, device: str, change: int) -> None:
        self._held += self._change(device, change)
        self._weights[device] = self._weights.get(device, 0) + change

    def _change(self, device: str, change: int) -> int:
        """Of what is held, where the device's weight changes by so much."""
        now = self._weights.get(device, 0)
        return min(now + change, self._part) - min(now, self._part)

    def _remove(self, number: int) -> None:
        entry = self._entries.pop(number)
        own = self._by_device[entry.device]
        own.remove(number)
        self._weigh(entry.device, -entry.weight)
        if not own:
            del self._by_device[entry.device], self._weights[entry.device]
