"""A child process ends with the one that started it, however that ends (Linux, prctl(2))."""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """`parent`: its process number; call it first, in the child. Where it has ended already, this
    one ends now.

    The kernel sends the signal when the *thread* ends that started this process: start it from one
    that lasts.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415  10 ms, and only children need it

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
