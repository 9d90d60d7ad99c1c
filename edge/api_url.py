"""Where the local API of the agent with this state directory listens, for commands on the device."""

import re
from contextlib import suppress
from pathlib import Path

from shared.errors import Unavailable

_NAME = "api.url"
_BYTES_MAX = 200
_URL = re.compile(r"http://[0-9A-Za-z._:%\[\]-]{1,150}")


def write(state_dir: Path, url: str) -> None:
    """Never raises: on a full disk commands must be told the URL."""
    with suppress(OSError):
        partial = state_dir / f".{_NAME}"
        partial.unlink(missing_ok=True)  # it may be a link to a file of somebody else's choice
        with partial.open("x", encoding="ascii") as file:
            file.write(url)
        partial.replace(state_dir / _NAME)


def read(state_dir: Path) -> str:
    """Raises `Unavailable` where no agent has run. It may have ended since."""
    try:
        with (state_dir / _NAME).open("rb") as file:
            found = file.read(_BYTES_MAX).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"{state_dir}: no agent has run with it; start it first") from error
    if not _URL.fullmatch(found):
        raise Unavailable(f"{state_dir / _NAME}: holds no URL of an agent; start the agent again")
    return found
