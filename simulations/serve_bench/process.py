"""All processes of one started server, however it forks: their CPU time and memory (proc(5)).

They carry a mark in their environment; one that rewrites its own is found as a child of another.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")
_END_S: Final = 5.0
MARK: Final = "SERVE_BENCH_MARK"
"""Environment variable that every process of one server shares and nothing else has."""


def members(root: int, mark: str) -> set[int]:
    """Give the ids of `root`, its descendants and all that carry `mark`."""
    wanted = f"{MARK}={mark}".encode()
    parents: dict[int, int] = {}
    found = {root}
    for pid in _processes():
        with contextlib.suppress(OSError):
            parents[pid] = int(_stat(pid)[1])
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found & parents.keys()


def cpu_s(pids: set[int]) -> float:
    """CPU seconds of them all, in user and kernel mode; of those that are gone, nothing."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = _stat(pid)
            total += int(fields[11]) + int(fields[12])
    return total / _TICKS_PER_S


def pss_mb(pids: set[int]) -> float:
    """Memory of them all, MiB; a shared page counts in parts (Pss)."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            text = (_PROC / str(pid) / "smaps_rollup").read_text()
            if found := re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE):
                total += int(found[1]) / 1024
    return total


def resident_mb(pids: set[int]) -> float:
    """Resident memory of them all, MiB; cheap enough to sample."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int((_PROC / str(pid) / "statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE") / 2**20


def machine_busy_s() -> float:
    """CPU seconds that all processors have spent on anything since the machine started."""
    ticks = [int(word) for word in (_PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / _TICKS_PER_S


def end(process: "subprocess.Popen[bytes]", mark: str) -> None:
    """SIGTERM to the first, which may end its own; then to all that stay, then SIGKILL, by id."""
    pids = members(process.pid, mark)
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    for how in (signal.SIGTERM, signal.SIGKILL):
        pids = {pid for pid in pids | members(process.pid, mark) if _runs(pid)}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        _wait(process, pids)


def _wait(process: "subprocess.Popen[bytes]", pids: set[int]) -> None:
    """No event tells of a process that is not our child."""
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        process.poll()
        if not any(_runs(pid) for pid in pids):
            return
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return _stat(pid)[0] != "Z"
    except OSError:
        return False


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _stat(pid: int) -> list[str]:
    """The fields behind the command's name: state, parent, ..."""
    return (_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
