"""Times of day at which downloads may run. Pure: the local time is given."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta

from shared.day_span import DaySpan


def is_open(windows: Sequence[DaySpan], local: datetime) -> bool:
    """Without windows it always is."""
    return not windows or any(window.holds(local.time()) for window in windows)


def changes_in_s(windows: Sequence[DaySpan], local: datetime) -> float | None:
    """Seconds until it opens or closes, by the wall's clock; None when it never does.

    Where the clock is set forward or back by an hour in between, this is off by that: whoever
    sleeps looks again at least every few minutes.
    """
    if not windows:
        return None
    now_open = is_open(windows, local)
    begins = local.replace(second=0, microsecond=0)
    edges = sorted(
        candidate
        for window in windows
        for edge in (window.opens, window.closes)
        for day in (0, 1, 2)
        if (candidate := _on(begins, edge, day)) > local
    )
    for edge_at in edges:
        if is_open(windows, edge_at) != now_open:
            return (edge_at.replace(tzinfo=None) - local.replace(tzinfo=None)).total_seconds()
    return None  # windows that fill the day


def _on(day: datetime, at: time, days_later: int) -> datetime:
    return day.replace(hour=at.hour, minute=at.minute) + timedelta(days=days_later)
