"""What the operating system says about this process and its disk. Blocking, quick."""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class SystemHealth:
    disk_free_bytes: int
    memory_bytes: int
    """Resident set; 0 where it is not known."""


def system_health(state_dir: Path) -> SystemHealth:
    disk, memory = 0, 0
    with suppress(OSError):
        disk = shutil.disk_usage(state_dir).free
    with suppress(OSError, ValueError, IndexError):
        memory = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return SystemHealth(disk, memory)
