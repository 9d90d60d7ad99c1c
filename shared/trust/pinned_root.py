"""The root of trust that a device, a worker or a replica is given when it is set up."""

from pathlib import Path

from shared.errors import Malformed
from shared.trust.names import ROOT_BYTES_MAX


def read_pinned_root(path: Path, setting: str) -> bytes:
    """What it holds is checked by whoever trusts it. `setting` names it in messages. Blocking.

    Raises `Malformed`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(ROOT_BYTES_MAX + 1)
    except OSError as error:
        raise Malformed(
            f"{setting} {path}: {error.strerror}; put the registry's first root there (1.root.json of "
            "the key ceremony, by a way that you trust)"
        ) from error
    if len(content) > ROOT_BYTES_MAX:
        raise Malformed(f"{setting} {path}: over {ROOT_BYTES_MAX} bytes; is it a root.json?")
    return content
