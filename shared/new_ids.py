"""New sample ids: unique without asking anybody, and sorted by time."""

import os
import time
from uuid import UUID

from shared.ids import SampleId


def new_sample_id(unix_ms: int | None = None, random_bytes: bytes | None = None) -> SampleId:
    """A UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits."""
    ms = time.time_ns() // 1_000_000 if unix_ms is None else unix_ms
    noise = int.from_bytes(os.urandom(10) if random_bytes is None else random_bytes, "big")
    value = (ms & (1 << 48) - 1) << 80 | noise
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return SampleId(UUID(int=value))
