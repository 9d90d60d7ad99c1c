"""A timer of the kernel that an event loop can wait for: uvloop's own count whole milliseconds.

Linux, timerfd_create(2). Python has it from 3.13 on.
"""

import contextlib
import ctypes
import os
from typing import Final

_MONOTONIC: Final = 1
_ABSOLUTE: Final = 1
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Spec(ctypes.Structure):
    """`struct itimerspec`: interval, then value, each seconds and nanoseconds."""

    _fields_ = (
        ("interval_s", ctypes.c_long), ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long), ("value_ns", ctypes.c_long),
    )  # fmt: skip


class Timer:
    """`fd` is readable once the time has come; times are of `time.monotonic`."""

    def __init__(self) -> None:
        """Raises OSError."""
        self.fd: int = _LIBC.timerfd_create(_MONOTONIC, _FLAGS)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _Spec(0, 0, 0, 0)
        self._at = ctypes.byref(self._spec)

    def set(self, at: float) -> None:
        """Go off then, at once if that is over; an earlier setting is forgotten."""
        seconds = int(at)
        self._spec.value_s, self._spec.value_ns = seconds, max(1, int((at - seconds) * 1e9))
        if _LIBC.timerfd_settime(self.fd, _ABSOLUTE, self._at, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def clear(self) -> None:
        """Take note that it went off."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)

    def close(self) -> None:
        os.close(self.fd)
