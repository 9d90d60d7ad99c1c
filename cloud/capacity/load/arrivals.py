"""When requests are due in an open loop, whatever the server does meanwhile. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time of one load."""

    per_second: float
    seconds: float


def poisson(stretches: Sequence[Stretch], rng: Random) -> list[float]:
    """Seconds from the start of each arrival, rising; independent of each other."""
    due: list[float] = []
    begins = 0.0
    for stretch in stretches:
        ends = begins + stretch.seconds
        at = begins
        while (at := at - math.log(1.0 - rng.random()) / stretch.per_second) < ends:
            due.append(at)
        begins = ends
    return due
