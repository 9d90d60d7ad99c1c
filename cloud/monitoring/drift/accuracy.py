"""How many of the edge's answers are right, from audits: unbiased, with an interval that covers. Pure.

Audits are drawn evenly among the samples that the edge was sure of while one audit share was in
force; escalated samples are all answered. So each of these is a stratum with its own rate of
disagreement, weighed by how many samples it stands for (post-stratification: Cochran, Sampling
Techniques, 1977, 5A.9). What was audited more often, since its window was novel, does not weigh more.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from cloud.monitoring.drift.counting import Audits, Increment
from cloud.monitoring.drift.documents import Accuracy
from shared.fleet.telemetry import STRATA_MAX

Z_95: Final = 1.959963984540054
SLICES: Final = 4
PARTS: Final = 5
"""One device has at most a fifth of what is kept, where the group has so many devices."""
_TIMES: Final = 3.0
_SAMPLES_MIN: Final = 500.0
"""A device counts three times the samples of the others on average, or 500: an audit of one that says
it had a million would weigh as much as all of theirs.
"""
_ESCALATED_MIN: Final = 20.0
"""Answered escalations that begin a slice without an audit: some devices are sure of nothing."""


@dataclass(slots=True)
class Strata:
    """Sums; confident samples by the audit share, and escalated ones."""

    confident: dict[float, tuple[float, float, float]] = field(default_factory=dict)
    """By share: samples, answered, disagreed."""
    escalated: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def audits(self) -> float:
        return sum(one[1] for one in self.confident.values())

    @property
    def samples(self) -> float:
        return sum(one[0] for one in self.confident.values()) + self.escalated[0]

    def add(self, audits: Iterable[Audits], escalated: Sequence[float]) -> None:
        for one in audits:
            share = self._room_for(one.share)
            now = self.confident.get(share, (0.0, 0.0, 0.0))
            new = (one.confident, one.answered, one.disagreed)
            self.confident[share] = _plus(now, new, 1.0)
        self.escalated = _plus(self.escalated, escalated, 1.0)

    def merge(self, other: "Strata", weight: float = 1.0) -> None:
        for share, (confident, answered, disagreed) in other.confident.items():
            at = self._room_for(share)
            now = self.confident.get(at, (0.0, 0.0, 0.0))
            self.confident[at] = _plus(now, (confident, answered, disagreed), weight)
        self.escalated = _plus(self.escalated, other.escalated, weight)

    def _room_for(self, share: float) -> float:
        """Itself, or the nearest one where there are as many as there may be."""
        if share in self.confident or len(self.confident) < STRATA_MAX:
            return share
        return min(sorted(self.confident), key=lambda one: abs(one - share))


@dataclass(slots=True)
class _Slice:
    device: str
    strata: Strata

    @property
    def weight(self) -> float:
        """In audits; a slice of escalated samples alone has room, too."""
        return max(1.0, self.strata.audits)


class AuditWindow:
    """The newest audits of a group's devices, of which none has more than its part: as `GroupWindow`,
    who floods replaces nothing but its own, and who is slow or silent holds nobody up.

    A slice begins with an answered audit, or twenty answered escalations, and what its device said
    since its slice before; a device begins another one after so many audits. Whole slices leave, the
    oldest first, so there are about as many as audits are kept at most. What a device said before
    anything was answered is one sum.
    """

    __slots__ = (
        "_by_device", "_held", "_kept", "_next", "_part", "_slices", "_waiting", "_weights",
    )  # fmt: skip

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._slices: dict[int, _Slice] = {}
        """The oldest first."""
        self._by_device: dict[str, deque[int]] = {}
        self._weights: dict[str, float] = {}
        """Of each device."""
        self._waiting: dict[str, Strata] = {}
        """Of which too little is answered for a slice."""
        self._next = 0
        self._part = float(kept)
        """Of the audits that are kept, what one device may have."""
        self._held = 0.0
        """Weight of all, none with more than its part."""

    def __len__(self) -> int:
        """Slices."""
        return len(self._slices)

    def add(self, device: str, new: Increment, devices: int) -> None:
        """`devices`: how many of the group run the version."""
        self._divide(devices)
        newest = self._open_slice(device)
        strata = self._waiting.setdefault(device, Strata()) if newest is None else newest.strata
        before = 0.0 if newest is None else newest.weight
        strata.add(new.audits, (new.escalated, new.escalated_answered, new.escalated_disagreed))
        if newest is None:
            if not strata.audits and strata.escalated[1] < _ESCALATED_MIN:
                return
            newest = self._slices[self._next] = _Slice(device, self._waiting.pop(device))
            self._by_device.setdefault(device, deque()).append(self._next)
            self._next += 1
        self._weigh(device, newest.weight - before)
        own = self._by_device[device]
        while self._weights[device] - self._slices[own[0]].weight >= self._part and len(own) > 1:
            self._remove(own[0])
        while len(self._slices) > 1:
            oldest = next(iter(self._slices))
            first = self._slices[oldest]
            if self._held + self._change(first.device, -first.weight) < self._kept:
                return
            self._remove(oldest)

    def forget(self, device: str) -> None:
        self._waiting.pop(device, None)
        for number in list(self._by_device.get(device, ())):
            self._remove(number)

    def total(self) -> Strata:
        found = Strata()
        for one in self._parts():
            found.merge(one)
        return found

    def without_each(self) -> Iterator[Strata]:
        """The total without each device in turn."""
        parts, before, after = self._parts(), Strata(), Strata()
        rests: list[Strata] = []
        for one in parts:
            rests.append(Strata())
            rests[-1].merge(before)
            before.merge(one)
        for rest, one in zip(reversed(rests), reversed(parts), strict=True):
            rest.merge(after)
            yield rest
            after.merge(one)

    def _parts(self) -> list[Strata]:
        """Of each device. None has more than its part, nor more than a slice's part or the median
        device, whichever is more; nor many times the samples of the others.
        """
        found: list[Strata] = []
        by_device = {device: self._of(device) for device in self._by_device}
        shares = self._shares()
        samples = {device: shares[device] * one.samples for device, one in by_device.items()}
        every = sum(samples.values())
        for device, one in by_device.items():
            share, own = shares[device], samples[device]
            if len(samples) > 1 and own:
                others = (every - own) / (len(samples) - 1)
                share *= min(1.0, max(_TIMES * others, _SAMPLES_MIN) / own)
            found.append(Strata())
            found[-1].merge(one, share)
        return found

    def _of(self, device: str) -> Strata:
        """Sum of its slices, with no more answers to escalated samples than it has of these: an answer
        may come in a later slice than its sample, and be all that is left of it.
        """
        found = Strata()
        for number in self._by_device[device]:
            found.merge(self._slices[number].strata)
        escalated, answered, disagreed = found.escalated
        share = min(1.0, escalated / max(1.0, answered))
        found.escalated = (escalated, share * answered, share * disagreed)
        return found

    def _divide(self, devices: int) -> None:
        part = self._kept / max(1, min(devices, PARTS))
        if part != self._part:
            self._part = part
            self._held = sum(min(one, part) for one in self._weights.values())

    def _open_slice(self, device: str) -> _Slice | None:
        """Its newest one, where that has room."""
        own = self._by_device.get(device)
        found = self._slices[own[-1]] if own else None
        is_full = found is None or found.strata.audits >= self._part / SLICES
        return None if is_full else found

    def _weigh(self, device: str, change: float) -> None:
        self._held += self._change(device, change)
        self._weights[device] = self._weights.get(device, 0.0) + change

    def _change(self, device: str, change: float) -> float:
        """Of what is held, where the device's weight changes by so much."""
        now = self._weights.get(device, 0.0)
        return min(now + change, self._part) - min(now, self._part)

    def _shares(self) -> dict[str, float]:
        """Share of each device's audits that counts."""
        ordered, part = sorted(self._weights.values()), self._part
        middle = ordered[(len(ordered) - 1) // 2] if ordered else 0.0  # of two, the quieter one
        most = part if len(ordered) == 1 else min(part, max(part / SLICES, middle))
        return {device: min(1.0, most / n) for device, n in self._weights.items()}

    def _remove(self, number: int) -> None:
        gone = self._slices.pop(number)
        own = self._by_device[gone.device]
        own.remove(number)
        self._weigh(gone.device, -gone.weight)
        if not own:
            del self._by_device[gone.device], self._weights[gone.device]


def estimate(strata: Strata, expected: float | None = None, z: float = Z_95) -> Accuracy | None:
    """None where nothing was audited, or of no sample that audits stand for is known that there was
    one. `z`: half-width of the interval in standard errors.

    Each stratum has Wilson's interval with continuity correction, which covers where few audits
    disagree, too (Newcombe, Statistics in Medicine 1998); variances are recovered from the ends and
    added up (Zou, Donner, Statistics in Medicine 2008). A stratum
    without audits is taken to be as the others.
    """
    known = [one for one in strata.confident.values() if one[1] > 0]
    if not known:
        return None
    parts = [(one[0], one[1], one[2]) for one in known]
    dark = sum(one[0] for one in strata.confident.values() if one[1] <= 0)
    spread = 1 + dark / max(1.0, sum(one[0] for one in known))
    parts = [(n * spread, answered, wrong) for n, answered, wrong in parts]
    escalated, answered, wrong = strata.escalated
    if escalated > 0 and answered > 0:
        parts.append((escalated, answered, wrong))
    total = sum(n for n, _, _ in parts)
    if total <= 0:
        return None
    right = below = above = 0.0
    for n, answered, wrong in parts:
        weight, rate = n / total, 1 - wrong / answered
        low, high = _wilson(rate, answered, z)
        right += weight * rate
        below += (weight * (rate - low)) ** 2
        above += (weight * (high - rate)) ** 2
    return Accuracy(
        estimate=min(max(right, 0.0), 1.0), low=max(0.0, right - math.sqrt(below)),
        high=min(1.0, right + math.sqrt(above)),
        audits=round(sum(one[1] for one in known)), samples=round(total), expected=expected,
    )  # fmt: skip


def _wilson(share: float, n: float, z: float) -> tuple[float, float]:
    def end(sign: int) -> float:
        corrected = min(1.0, max(0.0, share + sign * 0.5 / n))
        spread = math.sqrt(corrected * (1 - corrected) / n + z * z / (4 * n * n))
        return (corrected + z * z / (2 * n) + sign * z * spread) / (1 + z * z / n)

    return max(0.0, end(-1)), min(1.0, end(1))


def _plus(
    now: tuple[float, float, float], new: Sequence[float], weight: float
) -> tuple[float, float, float]:
    return now[0] + weight * new[0], now[1] + weight * new[1], now[2] + weight * new[2]
