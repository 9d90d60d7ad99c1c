"""Private keys that a command signs with, files of this machine, which never leave it; and metadata on
its way from one signer to the next.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shared.trust.tuf_api import CryptoSigner

SignWith = Annotated[
    list[Path] | None,
    typer.Option("--sign-with", metavar="KEY.pem", help="A private key; may repeat."),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Its first line is the keys' password. Default: HYBRIDGE_KEY_PASSWORD."
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Write what is signed there instead of handing it in: for others to sign, too.",
    ),
]
Days = Annotated[float, typer.Option(min=1, max=3660, help="For which what is signed is believed.")]


def signers_from(paths: list[Path] | None, password_file: Path | None) -> "list[CryptoSigner]":
    """Raises `Unknown`, `NotTrusted` (others may read it) or `Malformed`."""
    if not paths:
        return []
    from cloud.registry.trust.keys import load_signer, read_password

    password = read_password(password_file, os.environ)
    return [load_signer(path, password) for path in paths]


def save(folder: Path, role: str, content: bytes) -> Path:
    """Write metadata as TUF names it, `3.targets.json`; an older draft of it is replaced."""
    from cloud.registry.trust.edits import read
    from shared.disk import write_whole
    from shared.trust.names import file_name

    path = folder / file_name(role, read(content, role, role).signed.version)
    write_whole(path, content)
    return path


def load(path: Path) -> tuple[str, bytes]:
    """The role, by the file's name, and the metadata in it, checked for form. Raises `Malformed`."""
    from cloud.registry.trust.edits import read
    from shared.errors import Malformed
    from shared.trust.names import bytes_max, parse_file_name

    role, _ = parse_file_name(path.name)
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max(role) + 1)
    except OSError as error:
        raise Malformed(f"{path}: cannot read it: {error.strerror}") from error
    read(content, role, str(path))
    return role, content


def tree_of(content: bytes) -> object:
    """Metadata as JSON carries it."""
    return json.loads(content)
