"""How much memory this process holds. Linux; None elsewhere, and figures say that they lack it."""

import re
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_bytes() -> int | None:
    """Resident now."""
    return _field("VmRSS")


def peak_bytes() -> int | None:
    """Resident at the highest since this program was started (not inherited, as getrusage's is)."""
    return _field("VmHWM")


def _field(name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+([0-9]+) kB$", _STATUS.read_text("ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
