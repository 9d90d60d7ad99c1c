"""A span of the day, as "22:00-05:00". Pure: the region and its devices mean the same by it."""

import re
from dataclasses import dataclass
from datetime import time
from typing import Final

from shared.errors import Malformed

_SPAN: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, slots=True)
class DaySpan:
    """From `opens` until before `closes`, over midnight where `closes` comes first."""

    opens: time
    closes: time

    def holds(self, moment: time) -> bool:
        if self.opens < self.closes:
            return self.opens <= moment < self.closes
        return moment >= self.opens or moment < self.closes


def parse_span(text: str) -> DaySpan:
    """Read "01:00-05:00". Raises `Malformed`."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise Malformed(f"window {text[:40]!r}: write it as '01:00-05:00', in 24 hours")
    opens, opens_min, closes, closes_min = map(int, found.groups())
    span = DaySpan(time(opens, opens_min), time(closes, closes_min))
    if span.opens == span.closes:
        raise Malformed(f"window {text!r} is empty; leave windows out to allow any time")
    return span
