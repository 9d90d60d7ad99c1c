"""Names for the strings that must never be mixed up, and sample ids that sort by time."""

import os
import re
import time
from typing import NewType
from uuid import UUID

from shared.errors import Malformed

DeviceId = NewType("DeviceId", str)
SampleId = NewType("SampleId", UUID)

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def device_id(text: str) -> DeviceId:
    """A device's name as it stands in topics: 1 to 64 of A-Z a-z 0-9 _ . -, no leading mark."""
    if not _DEVICE.fullmatch(text):
        raise Malformed(
            f"device id {text[:80]!r}: use 1 to 64 of letters, digits, '_', '.', '-', "
            "starting with a letter or digit"
        )
    return DeviceId(text)


def new_sample_id(unix_ms: int | None = None, random_bytes: bytes | None = None) -> SampleId:
    """A UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits."""
    ms = time.time_ns() // 1_000_000 if unix_ms is None else unix_ms
    noise = int.from_bytes(os.urandom(10) if random_bytes is None else random_bytes, "big")
    value = (ms & (1 << 48) - 1) << 80 | noise
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return SampleId(UUID(int=value))


def sample_id(text: str) -> SampleId:
    """Parse the textual form; raises `Malformed`."""
    try:
        return SampleId(UUID(text))
    except ValueError as error:
        raise Malformed(f"sample id {text[:80]!r} is not a UUID") from error
