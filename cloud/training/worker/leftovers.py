"""Processes of a job that outlived what started them (proc(5)): ended before it begins again, since
two that write the same checkpoints would spoil both.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "HYBRIDGE_TRAINING_FOLDER"
"""In the environment of a job's process and of all that it starts: the job's folder."""
_PROC: Final = Path("/proc")


def end_leftovers(folder: Path, proc: Path = _PROC) -> int:
    """SIGKILL to every process that carries the folder's mark; how many there were."""
    wanted = f"{MARK}={folder}".encode()
    ended = 0
    with suppress(OSError):
        for entry in proc.iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    ended += 1
    return ended
