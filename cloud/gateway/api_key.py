"""API keys: `hy_<id>_<secret>`. Pure.

The secret is 43 random characters of 62 (256 bits) and six more of a CRC-32 over all before them,
as GitHub's tokens have it: whoever searches files for leaked keys finds `PATTERN` and is seldom
wrong, and a key that lost a letter is told from one that was made up. Of a key only its SHA-256 is
kept. A slow hash (scrypt, Argon2) is for passwords, which people choose and a thief can guess;
nobody guesses 256 random bits, and a slow hash would only make each first request cost 40 ms.
"""

import hashlib
import hmac
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cloud.gateway.refusals import Reason, Untrusted

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH: Final = 10
SECRET_LENGTH: Final = 43
CHECKSUM_LENGTH: Final = 6
PREFIX: Final = "hy_"
PATTERN: Final = r"hy_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}"
"""For secret scanners."""
_KEY: Final = re.compile(PATTERN, re.ASCII)


@dataclass(frozen=True, slots=True, repr=False)
class ApiKey:
    """A key as its owner holds it; printing this object shows no secret."""

    id: str
    text: str

    @property
    def digest(self) -> bytes:
        """SHA-256, 32 bytes."""
        return hashlib.sha256(self.text.encode()).digest()

    def __repr__(self) -> str:
        return f"ApiKey(id={self.id!r})"

    def matches(self, digest: bytes) -> bool:
        """Say whether this is the key that was kept; the time taken says nothing."""
        return hmac.compare_digest(self.digest, digest)


def make_key(choose: Callable[[str], str]) -> ApiKey:
    """Make a new key; `choose` picks one of a text's characters: `secrets.choice`."""
    key_id = "".join(choose(ALPHABET) for _ in range(ID_LENGTH))
    body = f"{PREFIX}{key_id}_" + "".join(choose(ALPHABET) for _ in range(SECRET_LENGTH))
    return ApiKey(key_id, body + checksum(body))


def read_key(text: str) -> ApiKey:
    """Read what a caller sent.

    Raises:
        Untrusted: `UNREADABLE`, or `MISTYPED_KEY` where the checksum does not fit.

    """
    if not _KEY.fullmatch(text):
        raise Untrusted(
            Reason.UNREADABLE, "this is no API key (hy_ID_SECRET); copy it again, whole"
        )
    if checksum(text[:-CHECKSUM_LENGTH]) != text[-CHECKSUM_LENGTH:]:
        raise Untrusted(
            Reason.MISTYPED_KEY, "a letter of this API key is wrong or missing; copy it again"
        )
    return ApiKey(text[len(PREFIX) : len(PREFIX) + ID_LENGTH], text)


def checksum(body: str) -> str:
    """Give the CRC-32 of everything before it, in six characters."""
    value = zlib.crc32(body.encode())
    found = ""
    for _ in range(CHECKSUM_LENGTH):
        value, digit = divmod(value, len(ALPHABET))
        found = ALPHABET[digit] + found
    return found
