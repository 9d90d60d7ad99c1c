"""What follows the home and what promotes this registry never write at the same time; nor do two
processes run one registry.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import InUse, Unavailable


@contextmanager
def one_at_a_time(folder: Path, doing: str, name: str = "writing") -> Iterator[None]:
    """Hold a lock of `folder` (`replication` in the state directory), across processes.

    Raises `InUse` at once when another holds it, `Unavailable` where it cannot be opened.
    """
    path = folder / f"{name}.lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InUse(
                f"{path}: another process is {name} here, so no {doing}; stop it, or try again"
            ) from error
        yield
