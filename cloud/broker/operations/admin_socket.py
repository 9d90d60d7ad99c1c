"""Where the operator's socket is; for both who listens there and who asks there."""

from pathlib import Path
from typing import Final

from shared.errors import Malformed

NAME: Final = "admin.sock"
PATH_BYTES_MAX: Final = 107
"""unix(7): `sun_path` has 108 bytes, one of them the final NUL."""


def socket_path(state_dir: Path) -> Path:
    """Give the path of the socket. Raises `Malformed` when no socket can have so long a path."""
    path = state_dir / NAME
    size = len(bytes(path))
    if size > PATH_BYTES_MAX:
        raise Malformed(
            f"{path}: {size} bytes, and a socket's path has {PATH_BYTES_MAX} at most; "
            "name a state directory with a shorter path, for example a relative one"
        )
    return path
