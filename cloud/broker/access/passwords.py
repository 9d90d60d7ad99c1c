"""The password file: `user:$scrypt$ln=14,r=8,p=1$<salt>$<hash>`, one user a line (RFC 7914). Pure.

The hash is in the PHC form that passlib's `scrypt` writes too: standard base64 without padding.
`#` in the first column begins a comment. `verify` takes about 40 ms of a core and 16 MB on purpose:
call it off the event loop. Everything else is quick.
"""

import base64
import binascii
import hashlib
import hmac
import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Self

from shared.errors import Malformed, Unknown

LOG2_N: Final = 14
BLOCK_SIZE: Final = 8
PARALLELISM: Final = 1
"""What new lines get: 16 MB and about 40 ms a try, which RFC 7914 calls interactive use."""
MEMORY_BYTES_MAX: Final = 64 << 20
"""Of one `verify`; four times what new lines need, and what passlib's default takes."""
WORK_MAX: Final = 1 << 20
"""N * r * p: eight times what new lines need, about 0.3 s."""
LOG2_N_MIN: Final = 10
"""Below it a stolen file gives its passwords away."""
PASSWORD_BYTES_MAX: Final = 65_535
"""As long as a CONNECT can carry (1.5.6)."""

_LINE: Final = re.compile(
    r"\$scrypt\$ln=([0-9]{1,2}),r=([0-9]{1,2}),p=([0-9]{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)",
    re.ASCII,
)
_SALT_BYTES: Final = range(8, 65)
_HASH_BYTES: Final = range(32, 65)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of a password."""

    log2_n: int
    block_size: int
    parallelism: int
    salt: bytes
    digest: bytes

    @property
    def memory_bytes(self) -> int:
        """What one `verify` takes, about."""
        return 128 * self.block_size << self.log2_n

    @property
    def work(self) -> int:
        """Time of one `verify`, in N * r * p."""
        return (1 << self.log2_n) * self.block_size * self.parallelism

    def verify(self, password: bytes) -> bool:
        """Say whether this is the password. Slow on purpose; compared in constant time."""
        found = hashlib.scrypt(
            password,
            salt=self.salt,
            n=1 << self.log2_n,
            r=self.block_size,
            p=self.parallelism,
            maxmem=self.memory_bytes + (1 << 20),
            dklen=len(self.digest),
        )
        return hmac.compare_digest(found, self.digest)


_NOBODY: Final = Entry(LOG2_N, BLOCK_SIZE, PARALLELISM, bytes(16), bytes(32))


@dataclass(frozen=True, slots=True)
class Passwords:
    """A whole file."""

    entries: dict[str, Entry]

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read a file's text; `where` is its name, for messages.

        Raises:
            Malformed: names file, line and what to do about it; never shows a hash.

        """
        entries: dict[str, Entry] = {}
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.rstrip(" \r")
            if not line or line.startswith("#"):
                continue
            at = f"{where}, line {number}"
            username, colon, kept = line.partition(":")
            if not colon:
                raise Malformed(
                    f"{at}: want 'user:$scrypt$...'; `hybridge broker passwd` writes it"
                )
            check_username(username, at)
            if username in entries:
                raise Malformed(f"{at}: {username!r} stands here a second time; delete one line")
            entries[username] = _entry(kept, f"{at}: {username!r}")
        return cls(entries)

    def verify(self, username: str, password: bytes) -> bool:
        """Say whether this user has this password. Slow on purpose, for users not here as well.

        An unknown user costs as much as the file's dearest line, so that where all lines have the
        same parameters the time says nothing about who is in it.
        """
        entry = self.entries.get(username)
        if entry is None:
            max(self.entries.values(), key=lambda one: one.work, default=_NOBODY).verify(password)
            return False
        return entry.verify(password)


def check_username(username: str, where: str) -> None:
    """Refuse a name that cannot stand in the file, or that nobody could tell from another.

    Raises:
        Malformed: it is empty, begins with `#`, begins or ends with a space, holds `:`, a control
            character or a line separator.

    """
    if not username:
        raise Malformed(f"{where}: the user name is empty")
    if ":" in username or username.startswith("#") or username != username.strip():
        problem = "a user name holds no ':', begins with no '#' and has no spaces around it"
        raise Malformed(f"{where}: {username!r}: {problem}")
    if any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in username):
        raise Malformed(f"{where}: {username!r} holds a control character")


def with_user(text: str, username: str, password: bytes, salt: bytes, where: str) -> str:
    """Give the file's text with this user added, or with a new password in the same place.

    Everything else stays as it was. `salt` is 16 fresh random bytes. Slow on purpose.

    Raises:
        Malformed: the text, the user name or the password (empty, or longer than 65,535 bytes).

    """
    Passwords.parse(text, where)
    check_username(username, "new user")
    if not 1 <= len(password) <= PASSWORD_BYTES_MAX:
        raise Malformed(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes, this one {len(password)}")
    digest = hashlib.scrypt(
        password, salt=salt, n=1 << LOG2_N, r=BLOCK_SIZE, p=PARALLELISM, dklen=32,
        maxmem=_NOBODY.memory_bytes + (1 << 20),
    )  # fmt: skip
    new = (
        f"{username}:$scrypt$ln={LOG2_N},r={BLOCK_SIZE},p={PARALLELISM}${_b64(salt)}${_b64(digest)}"
    )
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if _user_of(line) == username:
            lines[index] = new
            return "\n".join(lines)
    before = text if not text or text.endswith("\n") else text + "\n"
    return before + new + "\n"


def without_user(text: str, username: str, where: str) -> str:
    """Give the file's text without this user's line.

    Raises:
        Malformed: the text.
        Unknown: the user is not in it.

    """
    if username not in Passwords.parse(text, where).entries:
        raise Unknown(f"{where}: no user {username!r}; nothing was changed")
    return "\n".join(line for line in text.split("\n") if _user_of(line) != username)


def _user_of(line: str) -> str | None:
    return None if line.startswith("#") or ":" not in line else line.partition(":")[0]


def _entry(kept: str, at: str) -> Entry:
    again = "set it anew with `hybridge broker passwd`"
    if kept.startswith(("$6$", "$7$")):
        raise Malformed(f"{at} has a hash of mosquitto_passwd, which is not read here; {again}")
    found = _LINE.fullmatch(kept)
    if found is None:
        raise Malformed(f"{at}: want $scrypt$ln=14,r=8,p=1$<salt>$<hash>; {again}")
    try:
        salt, digest = _unb64(found[4]), _unb64(found[5])
    except binascii.Error as error:
        raise Malformed(f"{at}: salt or hash is not base64; {again}") from error
    if len(salt) not in _SALT_BYTES or len(digest) not in _HASH_BYTES:
        raise Malformed(f"{at}: want 8 to 64 bytes of salt and 32 to 64 of hash; {again}")
    entry = Entry(int(found[1]), int(found[2]), int(found[3]), salt, digest)
    if entry.log2_n < LOG2_N_MIN or not entry.block_size or not entry.parallelism:
        raise Malformed(f"{at}: ln is at least {LOG2_N_MIN}, r and p at least 1; {again}")
    # ln has at most two digits, so these stay small numbers until they are compared
    if entry.memory_bytes > MEMORY_BYTES_MAX or entry.work > WORK_MAX:
        raise Malformed(f"{at}: checking it would take over 64 MB or 0.3 s; {again}")
    return entry


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode().rstrip("=")


def _unb64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
