"""Private keys that a command signs with: files of this machine, which never leave it."""

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
Days = Annotated[float, typer.Option(min=1, max=3660, help="For which what is signed is believed.")]


def signers_from(paths: list[Path] | None, password_file: Path | None) -> "list[CryptoSigner]":
    """Raises `Unknown`, `NotTrusted` (others may read it) or `Malformed`."""
    if not paths:
        return []
    from cloud.registry.trust.keys import load_signer, read_password

    password = read_password(password_file, os.environ)
    return [load_signer(path, password) for path in paths]
