"""Read the password, the ACL and the revocation file: what the broker does at its start and on SIGHUP."""

from pathlib import Path
from typing import Final

from cloud.broker.access.acl import Acl
from cloud.broker.access.passwords import Passwords
from cloud.broker.access.revocations import Revocations
from shared.errors import Malformed, TooLarge, Unknown

FILE_BYTES_MAX: Final = 16 << 20
"""Of any of them: about 100,000 users, or as many revoked certificates."""


def read_passwords(path: Path) -> Passwords:
    """Read a password file.

    Raises:
        Unknown: it is not there or may not be read.
        TooLarge: it is over 16 MB.
        Malformed: a line of it.

    """
    return Passwords.parse(read_text(path), str(path))


def read_acl(path: Path) -> Acl:
    """Read an ACL file; raises as `read_passwords` does."""
    return Acl.parse(read_text(path), str(path))


def read_revocations(path: Path, ca: Path) -> Revocations:
    """Read revocation lists, signed by a CA in the file `ca`; raises as `read_passwords` does, and
    `NotTrusted`.
    """
    return Revocations.parse(read_text(path), str(path), read_text(ca))


def read_text(path: Path) -> str:
    """Read a UTF-8 file, with or without a byte order mark; raises as `read_passwords` does."""
    try:
        with path.open("rb") as file:
            found = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unknown(f"{path}: {error.strerror}; name a file that the broker may read") from error
    if len(found) > FILE_BYTES_MAX:
        raise TooLarge(f"{path}: over {FILE_BYTES_MAX >> 20} MB; this is not such a file")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        raise Malformed(f"{path}, line {line}: not UTF-8; save it as UTF-8") from error
