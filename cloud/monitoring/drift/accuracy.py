"""How many of the edge's answers are right, from audits: unbiased, with an interval that covers. Pure.

Audits are drawn evenly among the samples that the edge was sure of while one audit share was in
force; escalated samples are all answered. So each of these is a stratum with its own rate of
disagreement, weighed by how many samples it stands for (post-stratification: Cochran, Sampling
Techniques, 1977, 5A.9). What was audited more often, since its window was novel, does not weigh more.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cloud.monitoring.drift.counting import Audits, Increment
from cloud.monitoring.drift.documents import Accuracy
from shared.fleet.telemetry import STRATA_MAX

Z_95: Final = 1.959963984540054
SLICES: Final = 4
PARTS: Final = 5
_TIMES: Final = 3.0
_SAMPLES_MIN: Final = 500.0
"""A device counts three times the samples of the others on average, or 500: an audit of one that says
it had a million would weigh as much as all of theirs.
"""
"""One device has at most a fifth of a slice's audits, where the group has so many devices."""


@dataclass(slots=True)
class Strata:
    """Sums; confident samples by the audit share, and escalated ones."""

    confident: dict[float, tuple[float, float, float]] = field(default_factory=dict)
    """By share: samples, answered, disagreed."""
    escalated: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def audits(self) -> float:
        return sum(one[1] for one in self.confident.values())

    def add(
        self, audits: Iterable[Audits], escalated: Sequence[float], weight: float = 1.0
    ) -> None:
        for one in audits:
            share = self._room_for(one.share)
            now = self.confident.get(share, (0.0, 0.0, 0.0))
            new = (one.confident, one.answered, one.disagreed)
            self.confident[share] = _plus(now, new, weight)
        self.escalated = _plus(self.escalated, escalated, weight)

    def merge(self, other: "Strata") -> None:
        for share, (confident, answered, disagreed) in other.confident.items():
            at = self._room_for(share)
            now = self.confident.get(at, (0.0, 0.0, 0.0))
            self.confident[at] = _plus(now, (confident, answered, disagreed), 1.0)
        self.escalated = _plus(self.escalated, other.escalated, 1.0)

    def _room_for(self, share: float) -> float:
        """Itself, or the nearest one where there are as many as there may be."""
        if share in self.confident or len(self.confident) < STRATA_MAX:
            return share
        return min(sorted(self.confident), key=lambda one: abs(one - share))


class AuditWindow:
    """A group's newest audits, in slices."""

    __slots__ = ("_by_device", "_kept", "_samples", "_slices")

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._slices: deque[Strata] = deque([Strata()], SLICES + 1)
        self._by_device: dict[str, float] = {}
        """Audits of each in the newest slice."""
        self._samples: dict[str, float] = {}
        """Samples of each, lately."""

    def add(self, device: str, new: Increment, devices: int) -> None:
        most = self._kept / SLICES / max(1, min(devices, PARTS))
        answered = sum(one.answered for one in new.audits)
        room = max(0.0, most - self._by_device.get(device, 0.0))
        share = min(1.0, room / answered) if answered else float(room > 0)
        if devices > 1:
            share *= self._believed(device, new)
        if not share:
            return
        now = self._slices[-1]
        escalated = (new.escalated, new.escalated_answered, new.escalated_disagreed)
        now.add(new.audits, escalated, share)
        self._by_device[device] = self._by_device.get(device, 0.0) + answered * share
        if now.audits >= self._kept / SLICES:
            self._slices.append(Strata())
            self._by_device.clear()
            self._samples = {one: n / 2 for one, n in self._samples.items() if n >= 2}

    def _believed(self, device: str, new: Increment) -> float:
        """Share of its samples that counts: no more than some times what the others have."""
        samples = sum(one.confident for one in new.audits) + new.escalated
        own = self._samples.get(device, 0.0)
        others = [n for one, n in self._samples.items() if one != device]
        most = _TIMES * sum(others) / len(others) if others else 0.0
        room = max(0.0, max(most, _SAMPLES_MIN) - own)
        share = min(1.0, room / samples) if samples else 1.0
        self._samples[device] = own + samples * share
        return share

    def total(self) -> Strata:
        found = Strata()
        for one in self._slices:
            found.merge(one)
        return found


def estimate(strata: Strata, expected: float | None = None, z: float = Z_95) -> Accuracy | None:
    """None where nothing was audited. `z`: half-width of the interval in standard errors.

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
    total = sum(max(n, answered) for n, answered, _ in parts)
    right = below = above = 0.0
    for n, answered, wrong in parts:
        weight, rate = max(n, answered) / total, 1 - wrong / answered
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
