"""The API key that a command sends: from a file, or from HYBRIDGE_API_KEY; never from its arguments,
which every user of a machine can read.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file", metavar="FILE", help="Holds the API key. Default: HYBRIDGE_API_KEY, if set."
    ),
]
_BYTES_MAX = 4096


def read_key(file: Path | None) -> str | None:
    """None where there is none. Raises `Malformed`."""
    from shared.errors import Malformed

    if file is None:
        key = os.environ.get("HYBRIDGE_API_KEY", "").strip()
        if not (key.isascii() and key.isprintable()) or len(key) > _BYTES_MAX or " " in key:
            raise Malformed("HYBRIDGE_API_KEY: holds no API key: want one word")
        return key or None
    try:
        with file.open("rb") as opened:
            text = opened.read(_BYTES_MAX + 1)
        key = text.decode("ascii").strip()
    except OSError as error:
        raise Malformed(f"{file}: {error.strerror}; name a file that holds one API key") from error
    except UnicodeDecodeError as error:
        raise Malformed(f"{file}: holds no API key: not ASCII") from error
    if not key or len(text) > _BYTES_MAX or not key.isprintable() or " " in key:
        raise Malformed(f"{file}: holds no API key: want one word, as `hybridge key add` prints it")
    return key
