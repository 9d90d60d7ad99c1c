"""Go on in a session of one's own, where Linux groups processes by session (autogroup, sched(7)).

There the kernel shares a core among sessions first, and a SCHED_IDLE process only gives way inside
its own: beside a server of another session it takes half a core (measured: 0.99 of the server's
time; in a session of its own whose group is nice 19 as well, 0.01). And inside the server's own
session it would spend the session's share, so that the server waits behind other sessions.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

_AUTOGROUP = Path("/proc/self/autogroup")


def own_session() -> int | None:
    """Return in a child that leads a session; the caller's process waits for it, and ends with it.

    Signals to it go to the child. The descriptor returned is at its end once it is gone, however it
    ended; None when this process led its session already, or sessions are no matter here. Call it
    before there are threads.
    """
    if not _AUTOGROUP.exists() or os.getsid(0) == os.getpid():
        return None
    sys.stdout.flush()
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.setsid()
        return read_end
    os.close(read_end)
    raise SystemExit(_wait_for(child))


def _wait_for(child: int) -> int:
    def pass_on(number: int, _: FrameType | None) -> None:
        os.kill(child, signal.SIGTERM if number == signal.SIGHUP else number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code  # as a shell says it
