"""What an open loop found. Pure.

A request's latency counts from the time it was due, not from when the client came to send it: a
server that stalls is charged for every request that would have come meanwhile (coordinated
omission; Gil Tene, "How NOT to Measure Latency", 2015).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from simulations.serve_bench.results import Phase

ANSWERED: Final = range(200, 300)
REFUSED: Final = (429, 503, 504)
"""With 504 where the deadline cannot be met; whether it came soon enough, its time says."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One entry a request, in the order of `due`; seconds from the start of the load.

    `status` 0: there was no answer, and `done` means nothing.
    """

    due: Floats
    sent: Floats
    done: Floats
    status: NDArray[np.int64]

    def between(self, begins: float, ends: float) -> Self:
        """Those that were due from `begins` up to `ends`."""
        wanted = (self.due >= begins) & (self.due < ends)
        return type(self)(
            self.due[wanted], self.sent[wanted], self.done[wanted], self.status[wanted]
        )

    @property
    def is_answered(self) -> NDArray[np.bool_]:
        return (self.status >= ANSWERED.start) & (self.status < ANSWERED.stop)

    @property
    def is_refused(self) -> NDArray[np.bool_]:
        return np.isin(self.status, REFUSED)


def phase(found: Outcomes, begins: float, ends: float) -> Phase:
    """Sum up the requests that were due between two times."""
    part = found.between(begins, ends)
    took_ms = (part.done - part.due) * 1e3
    answered, refused = took_ms[part.is_answered], took_ms[part.is_refused]
    return Phase(
        asked_per_second=len(part.due) / (ends - begins),
        seconds=ends - begins,
        answered=len(answered),
        refused=len(refused),
        failed=len(part.due) - len(answered) - len(refused),
        answered_p50_ms=_percentile(answered, 50),
        answered_p99_ms=_percentile(answered, 99),
        refused_p50_ms=_percentile(refused, 50),
        refused_p99_ms=_percentile(refused, 99),
        late_p99_ms=_percentile(((part.sent - part.due) * 1e3)[part.status > 0], 99),
    )


def recovered_s(
    found: Outcomes, fell_at: float, p99_ms_max: float, window_s: float, ends: float
) -> float:
    """Seconds from `fell_at` to the first window that is well again.

    That is: something was due in it, all of it was answered, and within `p99_ms_max` at p99. What
    never is well again counts as the whole time until `ends`.
    """
    step_s = window_s / 10
    for number in range(int((ends - window_s - fell_at) / step_s) + 1):
        begins = fell_at + number * step_s
        seen = phase(found, begins, begins + window_s)
        if seen.answered and not seen.refused + seen.failed and seen.answered_p99_ms <= p99_ms_max:
            return begins - fell_at
    return ends - fell_at


def slope(times_s: Sequence[float], values: Sequence[float]) -> float:
    """Of the line through the points with the least squares, in values a second; 0 for under two."""
    if len(times_s) < 2:
        return 0.0
    return float(np.polyfit(np.asarray(times_s), np.asarray(values), 1)[0])


def _percentile(values: Floats, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
