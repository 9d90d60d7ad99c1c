"""When a batch may run: hours of the wall clock, over midnight and over changes of its offset. Pure.

Open whenever a clock on the wall in that zone shows a time from `start` to before `end`. So hours
that the change to summer time skips do not happen that night, and those it repeats happen twice.
"""

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared.errors import Malformed

_TIMES = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")
_MINUTE = timedelta(minutes=1)
_LOOK_AHEAD = timedelta(days=3)  # a night may lack its hours, so two days are not enough


@dataclass(frozen=True, slots=True)
class Hours:
    """From `start` to `end`, of the wall clock in `zone`; over midnight when `end` is earlier."""

    start: time
    end: time
    zone: tzinfo

    def are_open(self, at: datetime) -> bool:
        """`at` knows its own zone."""
        clock = at.astimezone(self.zone).time()
        if self.start < self.end:
            return self.start <= clock < self.end
        return clock >= self.start or clock < self.end

    def opening(self, at: datetime) -> datetime:
        """The first whole minute from `at` on at which they are open; `at` itself when it is."""
        if self.are_open(at):
            return at
        # minute by minute: offsets change at whole minutes, and 4,320 steps take milliseconds
        minute = at.replace(second=0, microsecond=0)
        while (minute := minute + _MINUTE) <= at + _LOOK_AHEAD:
            if self.are_open(minute):
                return minute
        raise Malformed(f"{self.start:%H:%M}-{self.end:%H:%M} does not happen in {self.zone}")


def parse_hours(text: str, zone: tzinfo) -> Hours:
    """Of "22:00-06:00"; raises `Malformed`."""
    found = _TIMES.fullmatch(text)
    if found is None:
        raise Malformed(f"window {text[:40]!r}: write it as 22:00-06:00")
    hours = [int(number) for number in found.groups()]
    start, end = time(hours[0], hours[1]), time(hours[2], hours[3])
    if start == end:
        raise Malformed(f"window {text}: is empty; leave it out to run at any time")
    return Hours(start, end, zone)


def zone_named(name: str) -> ZoneInfo:
    """Of the IANA data base, such as "Europe/Berlin"; raises `Malformed`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Malformed(f"time zone {name[:60]!r}: name one such as Europe/Berlin") from error
