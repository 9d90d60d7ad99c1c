"""Maintenance hours in a device's own time zone. Pure: `now` is given.

Hours are by the wall clock there: where it is set forward over a window's opening, the window opens
with the first minute that exists; where it is set back, an hour that comes twice counts both times.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from shared.day_span import DaySpan, parse_span

_DAYS = 8  # a window that is not open within this never opens


def parse(spans: Sequence[str]) -> tuple[DaySpan, ...]:
    """Read ("01:00-05:00", ...). Raises `Malformed`."""
    return tuple(parse_span(span) for span in spans)


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """UTC where the name is not known here: a device may say anything."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found, not a plain name, a folder
        return ZoneInfo("UTC")


def opens_at(hours: Sequence[DaySpan], zone_name: str, now: float) -> float:
    """Unix seconds at which it is open next: `now` where it is open. Never before `now`."""
    if not hours:
        return now
    place = zone(zone_name)
    if _open(hours, place, now):
        return now
    today = datetime.fromtimestamp(now, place).date()
    edges: list[float] = []
    for day in range(_DAYS):
        date = today + timedelta(days=day)
        for span in hours:
            local = datetime.combine(date, span.opens, place)
            edges += [local.timestamp(), local.replace(fold=1).timestamp()]
        edges += _shifts(datetime.combine(date, time(), place))
    return min(edge for edge in edges if edge > now and _open(hours, place, edge))


def _open(hours: Sequence[DaySpan], place: ZoneInfo, at: float) -> bool:
    moment = datetime.fromtimestamp(at, place).time()
    return any(span.holds(moment) for span in hours)


def _shifts(midnight: datetime) -> list[float]:
    """Where this day's clock is set forward or back, to the minute."""
    begins = midnight.astimezone(UTC)
    place = midnight.tzinfo
    quarters = [begins + timedelta(minutes=15 * i) for i in range(26 * 4)]
    return [
        after.timestamp()
        for before, after in pairwise(quarters)
        if before.astimezone(place).utcoffset() != after.astimezone(place).utcoffset()
    ]
