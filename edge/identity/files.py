"""The device's key, certificate and whom it believes in, on disk. Blocking.

    STATE_DIR/identity/current -> <serial>     replaced in one step
    STATE_DIR/identity/<serial>/key.pem        mode 0600
    STATE_DIR/identity/<serial>/certificate.pem
    STATE_DIR/identity/<serial>/ca.pem

A key and its certificate lie in one folder that never changes, and `current` names it: whenever the
power goes, they fit. Who reads the two files one after the other while `current` moves on may get
one of each; TLS refuses such a pair, and the next attempt has the new one.
"""

import logging
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from edge.identity.schedule import Validity
from shared.disk import sync_folder, write_whole, writing
from shared.errors import Malformed

log = logging.getLogger(__name__)

FOLDER: Final = "identity"
_CURRENT: Final = "current"
_FILE_BYTES_MAX: Final = 64 * 1024
_SERIAL: Final = re.compile(r"[0-9a-f]{1,40}")


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """Paths that stay: what they lead to is always the newest."""

    key: Path
    certificate: Path
    ca: Path


@dataclass(frozen=True, slots=True)
class Present:
    """The certificate that the device has."""

    device: str
    serial: str
    """In hex."""
    validity: Validity


def identity_paths(state_dir: Path) -> IdentityFiles:
    """Where the files are, or will be once the device is enrolled."""
    at = state_dir / FOLDER / _CURRENT
    return IdentityFiles(at / "key.pem", at / "certificate.pem", at / "ca.pem")


def identity_files(state_dir: Path) -> IdentityFiles | None:
    """None: the device is not enrolled."""
    files = identity_paths(state_dir)
    return files if files.certificate.exists() and files.key.exists() else None


def present(state_dir: Path) -> Present | None:
    """None: there is none. Raises `Malformed` for one that does not parse."""
    path = identity_paths(state_dir).certificate
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Malformed(f"{path}: {error.strerror}; enrol again") from error
    return described(content, str(path))


def described(certificate_pem: bytes, where: str) -> Present:
    """Raises `Malformed`."""
    try:
        found = x509.load_pem_x509_certificate(certificate_pem)
        (name,) = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError as error:
        raise Malformed(f"{where}: is no certificate: {str(error)[:200]}; enrol again") from error
    validity = Validity(
        found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
    )
    return Present(str(name.value), f"{found.serial_number:x}", validity)


def install(state_dir: Path, key_pem: bytes, certificate_pem: bytes, ca_pem: bytes) -> Present:
    """Make these the current ones; durable when this returns. The ones before stay beside them.

    Raises:
        Malformed: key and certificate do not belong together, or the CA's does not parse.
        Unavailable: they cannot be written; what was current still is.

    """
    new = described(certificate_pem, "the new certificate")
    _check(key_pem, certificate_pem, ca_pem)
    folder = state_dir / FOLDER
    at = folder / new.serial
    with writing(at):
        at.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_folder(state_dir)
    write_whole(at / "key.pem", key_pem, private=True)
    write_whole(at / "certificate.pem", certificate_pem)
    write_whole(at / "ca.pem", ca_pem)
    sync_folder(folder)
    before = _named(folder)
    beside = folder / f".{_CURRENT}.tmp"
    with writing(folder):
        beside.unlink(missing_ok=True)
        beside.symlink_to(new.serial)
        beside.replace(folder / _CURRENT)
    sync_folder(folder)
    _clear(folder, {new.serial, before})
    return new


def _check(key_pem: bytes, certificate_pem: bytes, ca_pem: bytes) -> None:
    try:
        key = serialization.load_pem_private_key(key_pem, None)
        own = x509.load_pem_x509_certificate(certificate_pem).public_key()
        x509.load_pem_x509_certificates(ca_pem)
    except (ValueError, TypeError) as error:
        raise Malformed(f"the region's answer: is no PEM: {str(error)[:200]}") from error
    if key.public_key() != own:
        raise Malformed("the region's answer: the certificate is for another key")


def _named(folder: Path) -> str | None:
    with suppress(OSError):
        return (folder / _CURRENT).readlink().name
    return None


def _clear(folder: Path, kept: set[str | None]) -> None:
    """Old keys are of no use to anybody but a thief. What cannot go now goes the next time."""
    for one in folder.iterdir():
        if one.name not in kept and _SERIAL.fullmatch(one.name) and not one.is_symlink():
            try:
                shutil.rmtree(one)
            except OSError as error:
                log.warning("old_identity_stays", extra={"why": error.strerror})
