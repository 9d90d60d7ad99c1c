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


def read_key(file: Path | None) -> str | None:
    """None where there is none. Raises `Malformed`."""
    from shared.api_key import is_key, key_in
    from shared.errors import Malformed

    if file is not None:
        return key_in(file)
    key = os.environ.get("HYBRIDGE_API_KEY", "").strip()
    if key and not is_key(key):
        raise Malformed("HYBRIDGE_API_KEY: holds no API key: want one word")
    return key or None
