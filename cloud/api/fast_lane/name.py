"""A request's id and trace, as header fields: what `identify` says, without the objects.

Most callers send neither, and then both are noise: half a microsecond instead of four.
"""

import os
from typing import NamedTuple

from cloud.api.trace import NOISE_BYTES, REQUEST_ID, TRACEPARENT, identify


class Name(NamedTuple):
    request_id: str
    traceparent: str

    @property
    def fields(self) -> bytes:
        return f"{REQUEST_ID}: {self[0]}\r\n{TRACEPARENT}: {self[1]}\r\n".encode()


def named(request_id: str | None, traceparent: str | None) -> Name:
    """From the two headers' values, None where absent."""
    noise = os.urandom(NOISE_BYTES)
    if request_id is None and traceparent is None:
        digits = noise.hex()
        trace, span = digits[16:48], digits[48:]
        if trace.strip("0") and span.strip("0"):  # all zeros mean none in the recommendation
            return Name(digits[:16], f"00-{trace}-{span}-00")
    identity = identify(request_id, traceparent, noise)
    return Name(identity.request_id, identity.traceparent)
