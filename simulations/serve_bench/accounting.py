"""What an open loop found, beyond `cloud.capacity.load.outcomes`. Pure."""

from collections.abc import Sequence

import numpy as np

from cloud.capacity.load.outcomes import Outcomes, phase


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
