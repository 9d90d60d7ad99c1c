"""What the kernel says of a process: its CPU time and memory (proc(5))."""

import os
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_RESET_PEAK: Final = "5"


def cpu_s(pid: int) -> float:
    """CPU seconds of all its threads, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def resident_mb(pid: int) -> float:
    """Memory it holds now, MiB."""
    return _status_mb(pid, "VmRSS")


def peak_resident_mb(pid: int) -> float:
    """Most memory it held since its start or `reset_peak`, MiB."""
    return _status_mb(pid, "VmHWM")


def reset_peak(pid: int) -> None:
    """Let the peak begin at what it holds now."""
    Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK, encoding="utf-8")


def _status_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/status has no {name}")
