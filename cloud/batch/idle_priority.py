"""Give way to everything else on this machine: what the online tier wants, it gets first."""

import contextlib
import os
from pathlib import Path

_NICE = 19
_TASKS = Path("/proc/self/task")
_AUTOGROUP = Path("/proc/self/autogroup")


def to_idle() -> str:
    """Put every thread of this process into SCHED_IDLE and nice 19; returns what was reached.

    Linux runs a SCHED_IDLE thread when nothing else wants its core and preempts it as soon as
    something does; its disk accesses are of the idle class by that alone (sched(7), and
    `task_nice_ioclass` in the kernel's ioprio.h). Threads made later inherit it. A session that
    this process leads gets nice 19 as a group (see `own_session`). It cannot be undone without
    privileges, so only a process that does nothing else calls this.
    """
    reached = []
    for thread in _threads():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, thread, _NICE)
    if os.getpriority(os.PRIO_PROCESS, 0) == _NICE:
        reached.append(f"nice {_NICE}")
    if hasattr(os, "SCHED_IDLE"):
        for thread in _threads():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        if os.sched_getscheduler(0) == os.SCHED_IDLE:
            reached.append("SCHED_IDLE")
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # there are kernels without
            _AUTOGROUP.write_text(str(_NICE))
            reached.append(f"session nice {_NICE}")
    return ", ".join(reached) or "nothing"


def _threads() -> list[int]:
    """Libraries start some while they are imported. 0 is the one that asks."""
    if not _TASKS.is_dir():
        return [0]
    return [int(entry.name) for entry in _TASKS.iterdir()]
