"""One agent per state directory: a lock that the kernel drops with its process, however it ends."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from shared.errors import InUse, Malformed


class StateLock:
    """Hold `folder` for this process. Raises `InUse` naming who has it, `Malformed` if it cannot
    be written to.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Malformed(
                f"state directory {folder}: {error.strerror}; set state_dir to a folder that this "
                "user may write to"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise InUse(
                f"state directory {folder} is held by process {holder}; stop that agent or give "
                "this one a state_dir of its own"
            ) from error
        with suppress(OSError):  # a full disk: the lock holds all the same, without our number
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
