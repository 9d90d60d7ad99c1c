"""This machine's time zone, by its rules and not by today's offset."""

import os
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from cloud.batch.hours import zone_named

_LOCALTIME = Path("/etc/localtime")


def local_zone() -> tzinfo:
    """Of `TZ`, else of /etc/localtime; UTC where there is neither. Raises `Malformed`."""
    if name := os.environ.get("TZ", "").removeprefix(":"):
        return zone_named(name)
    if not _LOCALTIME.exists():
        return UTC
    with _LOCALTIME.open("rb") as rules:
        return ZoneInfo.from_file(rules, key="local")
