"""Processes of a job that outlived what started them (proc(5)): ended before it begins again, since
two that write the same checkpoints would spoil both.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "HYBRIDGE_TRAINING_FOLDER"
"""In the environment of a job's process and of all that it starts: the job's folder."""
_PROC: Final = Path("/proc")
_WITHIN_S: Final = 5.0
"""Against those that start others faster than they are ended."""


def end_leftovers(folder: Path, proc: Path = _PROC) -> int:
    """SIGKILL to every process that carries the folder's mark, until a look finds no other one; how many
    there were. Blocking.
    """
    wanted, ended = f"{MARK}={folder}".encode(), set[int]()
    until = time.monotonic() + _WITHIN_S
    while (more := _killed(wanted, proc) - ended) and time.monotonic() < until:
        ended |= more
    return len(ended | more)


def _killed(wanted: bytes, proc: Path) -> set[int]:
    """Those that one look finds: one that is started meanwhile is not among them."""
    killed = set()
    with suppress(OSError):
        for entry in proc.iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    killed.add(int(entry.name))
    return killed
