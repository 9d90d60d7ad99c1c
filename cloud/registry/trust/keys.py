"""Ed25519 keys in files: PKCS#8 PEM, mode 0600, with or without a password; public ones beside.

A password comes from a file or the environment, never from an argument (others see arguments).
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from shared.errors import Conflict, Malformed, NotTrusted, Unavailable, Unknown
from shared.trust.tuf_api import CryptoSigner, SSlibKey

PASSWORD_VARIABLE = "HYBRIDGE_KEY_PASSWORD"  # noqa: S105  its name, not its value
_BYTES_MAX = 16 * 1024
_KEYS_MAX = 64


def create_key(path: Path, password: bytes | None) -> CryptoSigner:
    """A new key in `path` (mode 0600) and its public half in `path` with `.pub`.

    Raises `Conflict` where there is one: a key is never overwritten. `Unavailable` for the disk.
    """
    private = Ed25519PrivateKey.generate()
    content = private.private_bytes(
        Encoding.PEM,
        PrivateFormat.PKCS8,
        BestAvailableEncryption(password) if password else NoEncryption(),
    )
    write_new(path, content, 0o600)
    signer = CryptoSigner(private)
    write_new(path.with_suffix(".pub"), public_pem(signer.public_key), 0o644)
    return signer


def load_signer(path: Path, password: bytes | None) -> CryptoSigner:
    """Raises `Unknown` (no file), `NotTrusted` (others may read it), `Malformed` (no such key, or
    the password is missing or wrong).
    """
    content = _read_secret(path)
    try:
        private = load_pem_private_key(content, password)
    except TypeError as error:  # the library's word for a password too many or too few
        raise Malformed(
            f"{path}: {'needs no' if password else 'needs a'} password; it is read from the password "
            f"file or from {PASSWORD_VARIABLE}"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Malformed(
            f"{path}: the password is wrong, or it is no private key in PKCS#8 PEM"
        ) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise Malformed(f"{path}: not an Ed25519 key; make one with `hybridge registry keys`")
    return CryptoSigner(private)


def load_signers(folder: Path, password: bytes | None) -> dict[str, CryptoSigner]:
    """Every `.pem` of a folder by its key id. Raises as `load_signer`."""
    try:
        paths = sorted(folder.glob("*.pem"))
    except OSError as error:
        raise Unavailable(f"{folder}: {error.strerror}") from error
    if not paths or len(paths) > _KEYS_MAX:
        raise Malformed(f"{folder}: {len(paths)} keys (*.pem); there may be 1 to {_KEYS_MAX}")
    signers = [load_signer(path, password) for path in paths]
    return {signer.public_key.keyid: signer for signer in signers}


def read_password(file: Path | None, environment: Mapping[str, str]) -> bytes | None:
    """The file's first line, else the environment's variable, else None. Raises as `load_signer`."""
    if file is not None:
        password = _read_secret(file).split(b"\n", 1)[0].rstrip(b"\r")
        if not password:
            raise Malformed(f"{file}: its first line is empty; it should be the password")
        return password
    given = environment.get(PASSWORD_VARIABLE)
    return given.encode() if given else None


def public_pem(key: SSlibKey) -> bytes:
    """As people exchange it (`openssl pkey -pubin -text` reads it)."""
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.keyval["public"]))
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def parse_public(content: bytes, where: str) -> SSlibKey:
    """Raises `Malformed`."""
    try:
        public = load_pem_public_key(content[:_BYTES_MAX])
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Malformed(f"{where}: no public key in PEM") from error
    if not isinstance(public, Ed25519PublicKey):
        raise Malformed(f"{where}: not an Ed25519 key")
    return SSlibKey.from_crypto(public)


def load_public(path: Path) -> SSlibKey:
    """Of a `.pub` file. Raises `Unknown`, `Malformed`."""
    try:
        with path.open("rb") as file:
            return parse_public(file.read(_BYTES_MAX), str(path))
    except OSError as error:
        raise Unknown(f"{path}: {error.strerror}") from error


def _read_secret(path: Path) -> bytes:
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait
    except OSError as error:
        raise Unknown(f"{path}: {error.strerror}; name the file of a private key") from error
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            raise NotTrusted(f"{path}: is no plain file")
        if found.st_mode & 0o077:
            raise NotTrusted(
                f"{path}: others may read it (mode {stat.S_IMODE(found.st_mode):04o}); chmod 600, and "
                "change the key if anybody else was on this machine"
            )
        return file.read(_BYTES_MAX)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Durable when this returns. Raises `Conflict` where there is one, `Unavailable`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"{path.parent}: {error.strerror}") from error
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(number)
    except FileExistsError as error:
        raise Conflict(f"{path}: is there already; a key is never overwritten") from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error
