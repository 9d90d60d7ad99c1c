"""The loads that were recorded: shapes of days and hours, compressed in time. Pure."""

import math
from dataclasses import dataclass
from typing import Final

from cloud.capacity.load.arrivals import Stretch

PEAK_QPS: Final = 200.0
"""When recorded: enough that a second's count varies by 7% by chance, and little work."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`stretches` as they are sent; each recorded second stands for `stands_for_s`."""

    name: str
    stands_for_s: float
    stretches: tuple[Stretch, ...]

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.stretches)


def diurnal() -> Shape:
    """A day in four minutes: a quiet night, a peak in the afternoon."""
    steps = [0.15 + 0.85 * math.sin(math.pi * hour / 24) ** 4 for hour in range(24)]
    return Shape("diurnal", 360.0, tuple(Stretch(PEAK_QPS * share, 10.0) for share in steps))


def spike() -> Shape:
    """An hour in two minutes: five times the load for three and a half minutes."""
    low = Stretch(PEAK_QPS / 5, 50.0)
    return Shape("spike", 30.0, (low, Stretch(PEAK_QPS, 7.0), Stretch(PEAK_QPS / 5, 63.0)))


def step() -> Shape:
    """Two hours in two minutes: a fleet of devices is switched on at once, and half of it off."""
    return Shape(
        "step", 60.0,
        (
            Stretch(PEAK_QPS * 0.1, 30.0), Stretch(PEAK_QPS, 50.0), Stretch(PEAK_QPS * 0.45, 40.0),
        ),
    )  # fmt: skip


SHAPES: Final = (diurnal, spike, step)
