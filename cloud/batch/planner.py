"""What of the work that waits fits into a near-line window. Pure.

Oldest first, because what is late only gets later. At least one input is taken: one that is larger
than a window is done over several.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cloud.batch.source import Found

Pending = tuple[Found, int]  # with how many of its rows are answered already

_RATIO_MIN, _RATIO_MAX = 0.05, 2.0
_WEIGHT = 0.5  # of the last window: a machine that changed is believed after two or three
_IDLE_MIN = 0.05  # near-line work is let in behind a busy tier, too, if seldom
_MARGIN = 0.8  # of a window that plans may fill; the rest is for listing, reading and surprises


@dataclass(frozen=True, slots=True)
class Plan:
    take: tuple[Pending, ...]
    left: tuple[Pending, ...]  # oldest first, too


def rows_per_s(
    cost_s: Callable[[int], float], batch_rows: int, idle_share: float, ratio: float
) -> float:
    """What the model does a second in its idle time; `ratio`: of plans, what was reached so far."""
    return batch_rows / max(cost_s(batch_rows), 1e-6) * max(idle_share, _IDLE_MIN) * ratio


def plan(
    pending: Sequence[Pending], rows_of: Callable[[Found], int], rate: float, seconds: float
) -> Plan:
    """`rate` is in rows a second."""
    room = rate * seconds * _MARGIN
    oldest_first = sorted(pending, key=lambda each: (each[0].modified, each[0].name))
    count = rows = 0
    for one, done in oldest_first:
        rows += max(1, rows_of(one) - done)
        if count and rows > room:
            break  # and nothing younger goes before it
        count += 1
    return Plan(tuple(oldest_first[:count]), tuple(oldest_first[count:]))


def reached(ratio: float, rate: float, rows: int, took_s: float) -> float:
    """The next `ratio`, after `rows` in `took_s` where `rate` rows a second were expected."""
    if rows == 0 or took_s <= 0:
        return ratio
    hit = ratio * rows / (rate * took_s)
    return min(max(ratio + _WEIGHT * (hit - ratio), _RATIO_MIN), _RATIO_MAX)


def window_after(now: float, every_s: float) -> float:
    """When the next window begins: at whole multiples of `every_s` since the epoch, in UTC."""
    return (now // every_s + 1) * every_s
