"""Where the local API of the agent with this state directory listens, for commands on the device."""

from contextlib import suppress
from pathlib import Path

from shared.errors import Unavailable

_NAME = "api.url"
_BYTES_MAX = 200


def write(state_dir: Path, url: str) -> None:
    """Never raises: on a full disk commands must be told the URL."""
    with suppress(OSError):
        partial = state_dir / f".{_NAME}"
        partial.write_text(url, "ascii")
        partial.replace(state_dir / _NAME)


def read(state_dir: Path) -> str:
    """Raises `Unavailable` where no agent has run. It may have ended since."""
    try:
        with (state_dir / _NAME).open("rb") as file:
            return file.read(_BYTES_MAX).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"{state_dir}: no agent has run with it; start it first") from error
