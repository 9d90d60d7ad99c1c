"""The folder that a train-worker has to itself, and what tells it from others."""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cloud.training.worker.config import WorkerConfig
from shared.disk import writing
from shared.errors import InUse


def make_folders(config: WorkerConfig) -> None:
    """Blocking. Raises `Unavailable`."""
    with writing(config.work_dir):
        config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def alone(work_dir: Path) -> Iterator[str]:
    """What tells this folder's worker from others: it stays over a restart, since whoever has the lock
    knows that the one before is gone. Raises `InUse`.
    """
    handle = os.open(work_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUse(
                f"{work_dir}: another train-worker uses this folder; end it, or set worker.work_dir"
            ) from error
        token = os.pread(handle, 64, 0).decode("ascii", "replace")
        if not re.fullmatch(r"[0-9a-f]{32}", token):
            token = secrets.token_hex(16)
            os.ftruncate(handle, 0)
            os.pwrite(handle, token.encode(), 0)
        yield token
    finally:
        os.close(handle)
