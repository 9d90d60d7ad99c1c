"""Durations and shares as people write and read them. Pure."""

import math
import re
from typing import Final

from shared.errors import Malformed

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd])", re.ASCII)
_PLAIN: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})?", re.ASCII)


def seconds(text: str, what: str) -> float:
    """Of `48h`, `1h30m`, `90s` or `5400`. Raises `Malformed`, naming `what`."""
    stripped = text.strip().lower()
    if _PLAIN.fullmatch(stripped):
        return float(stripped)
    at, total = 0, 0.0
    while at < len(stripped) and (part := _PART.match(stripped, at)):
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not stripped or at < len(stripped):
        raise Malformed(f"{what} {text[:40]!r}: write it as 48h, 1h30m, 90s or seconds")
    return total


def share(text: str, what: str) -> float:
    """Of `5%` or `0.05`. Raises `Malformed`, naming `what`."""
    stripped = text.strip()
    number = stripped.removesuffix("%")
    if not _PLAIN.fullmatch(number):
        raise Malformed(f"{what} {text[:40]!r}: write it as 5% or 0.05")
    found = float(number) / (100 if stripped.endswith("%") else 1)
    if found > 1:
        raise Malformed(f"{what} {text[:40]!r}: over 100%; write it as 5% or 0.05")
    return round(found, 12)


def span(seconds: float) -> str:
    """As `2 h 05 min`: two units at most, rounded up where it is cut."""
    if not math.isfinite(seconds):
        return "never"
    if seconds < 60:
        return f"{max(0, math.ceil(seconds))} s"
    minutes = math.ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min" if minutes else f"{hours} h"
    days, hours = divmod(hours + (minutes > 0), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def percent(found: float) -> str:
    """A share, to a thousandth of a percent."""
    return f"{round(found * 100, 3):.4g}%"
