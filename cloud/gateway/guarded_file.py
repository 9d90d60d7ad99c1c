"""Reading a file that decides who comes in: bounded, and not one that others may write."""

import logging
import os
import stat
from pathlib import Path
from typing import Final

from shared.errors import Malformed, NotTrusted, TooLarge, Unknown

log = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 32 << 20
"""About 100,000 keys."""
_REFUSED: Final = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP


def read_guarded(path: Path, *, is_secret: bool = True) -> str:
    """Read a UTF-8 file.

    As ssh does with its keys: one that others may read or write, or its group may write, is
    refused; one that its group may read is used, with a warning. `is_secret` false: others may
    read it, but not write it.

    Raises:
        Unknown: it is not there, is no file, or may not be read.
        NotTrusted: its mode or owner lets others in.
        TooLarge: it is over 32 MiB.
        Malformed: it is not UTF-8.

    """
    try:
        # a pipe in its place must not hold the process up
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(number, "rb") as file:
            about = os.fstat(number)
            if not stat.S_ISREG(about.st_mode):
                raise Unknown(f"{path}: not a file; name a file")
            _check(path, about, is_secret=is_secret)
            found = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unknown(f"{path}: {error.strerror}; name a file that may be read") from error
    if len(found) > FILE_BYTES_MAX:
        raise TooLarge(f"{path}: over {FILE_BYTES_MAX >> 20} MiB; this is not such a file")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        raise Malformed(f"{path}, line {line}: not UTF-8; save it as UTF-8") from error


def _check(path: Path, about: os.stat_result, *, is_secret: bool) -> None:
    if os.name != "posix":
        return
    mode = stat.S_IMODE(about.st_mode)
    refused = _REFUSED if is_secret else stat.S_IWOTH | stat.S_IWGRP
    if mode & refused:
        raise NotTrusted(f"{path}: mode {mode:04o} lets others in; chmod 600 {path}")
    if about.st_uid not in (0, os.geteuid()):
        raise NotTrusted(
            f"{path}: belongs to user {about.st_uid}, who could let others in; chown it to the "
            "user that runs this, or to root"
        )
    if is_secret and mode & stat.S_IRGRP:
        log.warning("group_may_read", extra={"path": str(path), "mode": f"{mode:04o}"})
