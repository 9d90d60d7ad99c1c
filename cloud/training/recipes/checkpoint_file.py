r"""The bytes of a checkpoint: a line that says what follows, and what follows. Pure.

    hybridge-checkpoint 1 <key> <step> <payload bytes> <SHA-256 of the payload>\n<payload>

`key` is of the run that wrote it, so that a file of another one is told from a damaged one.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from shared.errors import Malformed, NotTrusted, Unknown

MAGIC = b"hybridge-checkpoint"
FORMAT = 1
HEAD_BYTES_MAX = 512
BYTES_MAX: Final = 1 << 30
"""Of a whole one: a worker that shares it reads it whole, and the next one fetches no more."""
_HEAD = re.compile(rb"([0-9a-f]{64}) (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Verified:
    """A checkpoint whose bytes are those that were written."""

    key: str
    step: int
    payload: bytes


def framed(key: str, step: int, payload: bytes) -> bytes:
    """`key`: 64 hexadecimal digits."""
    digest = hashlib.sha256(payload).hexdigest()
    return MAGIC + f" {FORMAT} {key} {step} {len(payload)} {digest}\n".encode() + payload


def verified(content: bytes, where: str) -> Verified:
    """Raises `Malformed` (no checkpoint, or cut off), `Unknown` (another format's version) or
    `NotTrusted` (its bytes changed).
    """
    line, found, payload = content[:HEAD_BYTES_MAX].partition(b"\n")
    magic, version, rest = (*line.split(b" ", 2), b"", b"")[:3]
    if not found or magic != MAGIC or not version.isdigit():
        raise Malformed(f"{where}: is no checkpoint; remove it")
    if int(version) != FORMAT:
        raise Unknown(
            f"{where}: its format is version {int(version)}, this program reads {FORMAT}; "
            "go on with the program that wrote it, or begin anew"
        )
    head = _HEAD.fullmatch(rest)
    if head is None:
        raise Malformed(f"{where}: its first line is damaged; remove it")
    key, step, length, digest = (part.decode() for part in head.groups())
    payload = content[len(line) + 1 :]
    if len(payload) != int(length):
        raise Malformed(f"{where}: has {len(payload)} of {length} bytes; it was cut off, remove it")
    if hashlib.sha256(payload).hexdigest() != digest:
        raise NotTrusted(f"{where}: its SHA-256 is not {digest}; its disk damaged it, remove it")
    return Verified(key, int(step), payload)
