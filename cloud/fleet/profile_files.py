"""A device profile as a TOML file: `firmware_configs/profiles/` has some to begin with."""

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from shared.config import in_words, read_toml
from shared.errors import Malformed, TooLarge
from shared.fleet.profile import ProfileSettings

BYTES_MAX: Final = 64 * 1024


def read_profile(path: Path) -> ProfileSettings:
    """Raises `Malformed` with the file and the setting, `TooLarge`."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise Malformed(f"{path}: {error.strerror}; name a readable TOML file") from error
    if size > BYTES_MAX:
        raise TooLarge(f"{path}: {size} bytes; a profile has at most {BYTES_MAX}")
    try:
        return ProfileSettings.model_validate(read_toml(path))
    except ValidationError as error:
        raise Malformed(f"{path}: {in_words(error)}") from error
