"""Changing a text file that a running process reads: all of the old or all of the new."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def replace_text(path: Path, read: Callable[[Path], str], edit: Callable[[str], str]) -> None:
    """Replace a file's text, as `read` gives it, by what `edit` makes of it; none counts as empty.

    The new file has mode 0600 and, where this process may give it away, its predecessor's owner.
    Two who edit at once take turns. If `read` or `edit` raises, the file stays as it is.
    """
    path = path.resolve()  # a link stays a link
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        before = path.stat() if path.exists() else None
        text = edit("" if before is None else read(path))
        number, name = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)  # mode 0600
        new = Path(name)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(text.encode())
                file.flush()
                if before is not None:
                    with contextlib.suppress(PermissionError):
                        os.fchown(number, before.st_uid, before.st_gid)
                os.fsync(number)
            new.replace(path)
        except BaseException:
            new.unlink()
            raise
        os.fsync(folder)
    finally:
        os.close(folder)
