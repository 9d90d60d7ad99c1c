"""The API key that this end shows another: one word, out of a file, in a header; in no message."""

from pathlib import Path
from typing import Final

from shared.errors import Malformed

HEADER: Final = "X-API-Key"
_BYTES_MAX: Final = 4096


def is_key(text: str) -> bool:
    """Whether it fits a header, as one word."""
    return 0 < len(text) <= _BYTES_MAX and text.isascii() and text.isprintable() and " " not in text


def key_in(file: Path | None, setting: str = "") -> str | None:
    """The key that a file holds, alone; None where no file is named. `setting` names it.

    Raises `Malformed`.
    """
    if file is None:
        return None
    where = f"{setting} {file}".strip()
    try:
        with file.open("rb") as opened:
            content = opened.read(_BYTES_MAX + 1)
    except OSError as error:
        raise Malformed(
            f"{where}: {error.strerror}; name a file that this user may read, with one API key in it"
        ) from error
    key = content.decode("ascii", "replace").strip()
    if len(content) > _BYTES_MAX or not is_key(key):
        raise Malformed(
            f"{where}: holds no API key: want one word, as `hybridge key add` prints it"
        )
    return key


def key_header(key: str | None) -> dict[str, str]:
    """Raises `Malformed` for a key that fits no header."""
    if key is None:
        return {}
    if not is_key(key):
        raise Malformed("the API key holds characters that no key has; check its file")
    return {HEADER: key}
