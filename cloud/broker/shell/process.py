"""This process: its memory, its limits, and where its number stands, set for a broker."""

import contextlib
import ctypes
import gc
import logging
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shared.disk import write_whole

log = logging.getLogger(__name__)

FILES_BESIDE: Final = 64
"""Open files that are no clients: store, listeners, admin connections."""
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
_FREE_BYTES_KEPT: Final = 32 << 20
_BYTES_TAKEN_AT_ONCE: Final = 4 << 20


def keep_freed_memory() -> None:
    """Have glibc keep up to 32 MB it could give back, for the next burst of large payloads.

    Giving the top of the heap back after each burst and faulting it in again was a fourth of the
    time that messages of 64 KB took (mallopt(3)). Nothing happens with another C library.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for option, value in (
            (_M_TRIM_THRESHOLD, _FREE_BYTES_KEPT),
            (_M_TOP_PAD, _BYTES_TAKEN_AT_ONCE),
            (_M_MMAP_THRESHOLD, _BYTES_TAKEN_AT_ONCE),
        ):
            libc.mallopt(option, value)


def collect_no_garbage() -> None:
    """Stop the collector while a store is loaded: it takes longer than the loading itself."""
    gc.disable()


def collect_rarely() -> None:
    """Look for garbage cycles again, seldom, and not among what is there by now for good."""
    gc.freeze()
    gc.set_threshold(10_000, 50, 100)
    gc.enable()


def allow_open_files(connections_max: int) -> None:
    """Raise the soft limit of open files to the hard one; warn where that is too low.

    A usual soft limit of 1,024 would turn away clients that `connections_max` allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < connections_max + FILES_BESIDE:
        more = {"open_files_max": hard, "connections_max": connections_max}
        log.warning("few_open_files_allowed", extra=more)


@contextlib.contextmanager
def pid_written(path: Path) -> Iterator[None]:
    """Have this process's number stand in a file for as long as the block lasts. Raises
    `Unavailable`. What a kill leaves there, the next start replaces.
    """
    own = f"{os.getpid()}\n"
    write_whole(path, own.encode(), durable=False)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path.read_text("ascii") == own:
                path.unlink()
