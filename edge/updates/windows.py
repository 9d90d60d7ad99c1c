"""Times of day at which downloads may run. Pure: the local time is given."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from shared.errors import Malformed

_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class Window:
    """From `opens` until before `closes`, over midnight where `closes` comes first."""

    opens: time
    closes: time

    def holds(self, moment: time) -> bool:
        if self.opens < self.closes:
            return self.opens <= moment < self.closes
        return moment >= self.opens or moment < self.closes


def parse(text: str) -> Window:
    """Read "01:00-05:00". Raises `Malformed`."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise Malformed(f"window {text[:40]!r}: write it as '01:00-05:00', in 24 hours")
    numbers = [int(part) for part in found.groups()]
    window = Window(time(numbers[0], numbers[1]), time(numbers[2], numbers[3]))
    if window.opens == window.closes:
        raise Malformed(f"window {text!r} is empty; leave windows out to allow any time")
    return window


def is_open(windows: Sequence[Window], local: datetime) -> bool:
    """Without windows it always is."""
    return not windows or any(window.holds(local.time()) for window in windows)


def changes_in_s(windows: Sequence[Window], local: datetime) -> float | None:
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
