"""How much of the time a batch may run beside the online tier. Pure.

The kernel preempts a SCHED_IDLE process within a tick, but not what it has put into the caches, the
memory's bandwidth or an accelerator's queue. So the share of time goes by what the online tier says
of itself: nothing while requests wait too long, and otherwise its idle share, climbed to slowly,
left at once, as congestion control does (Chiu and Jain 1989).
"""

from collections.abc import Callable
from dataclasses import dataclass

from cloud.batch.online_load import OnlineLoad


@dataclass(frozen=True, slots=True)
class Rules:
    """Shares are of time, 0 to 1."""

    share_max: float = 1.0
    """With an idle online tier."""
    depth_max: int = 16
    """Requests that may wait in the online tier's queues before the batch stops. One batch of theirs:
    at half of its capacity one or two wait at any look, and a batch that stopped for them would never
    run beside it."""
    p99_ms_max: float | None = None
    """The online tier's target. None: the one that it states, if it does."""
    share_unknown: float = 0.1
    """While the online tier does not answer: it may be too busy to."""
    climb_per_s: float = 0.2
    """From nothing to everything in five seconds: several of its reports lie between."""
    share_min: float = 0.02
    """Less is not worth an engine's warm caches: below it the batch stops."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What share of time the batch has, and why."""

    share: float
    why: str


def pace(before: Pace, load: OnlineLoad | None, elapsed_s: float, rules: Rules) -> Pace:
    """The next pace, `elapsed_s` after the one before; `load` None: no report could be had."""
    if load is None:
        return Pace(min(rules.share_unknown, rules.share_max), "the online tier does not answer")
    if load.queue_depth > rules.depth_max:
        return Pace(0.0, f"{load.queue_depth} online requests wait")
    target_ms = load.p99_target_ms if rules.p99_ms_max is None else rules.p99_ms_max
    if target_ms is not None and load.p99_ms is not None and load.p99_ms > target_ms:
        return Pace(0.0, f"online p99 is {load.p99_ms:.1f} ms; its target is {target_ms:g}")
    idle = min(1.0 - load.busy_share, rules.share_max)
    share = min(idle, before.share + rules.climb_per_s * elapsed_s)
    if idle < rules.share_min:
        return Pace(0.0, f"the online tier is busy {load.busy_share:.0%} of the time")
    return Pace(max(share, rules.share_min), f"{idle:.0%} of the online tier is idle")


def rest_s(share: float, ran_s: float) -> float:
    """How long to rest after a batch of `ran_s` for it to be `share` > 0 of the time."""
    return ran_s * (1.0 - share) / share


def batch_rows(cost_s: Callable[[int], float], pause_s_max: float, rows_max: int) -> int:
    """The largest power of two whose batch ends within `pause_s_max`, so that a stop comes so soon.

    One row, when even that takes longer.
    """
    rows = 1
    while rows * 2 <= rows_max and cost_s(rows * 2) <= pause_s_max:
        rows *= 2
    return rows
