"""A request's id and trace, as header fields: what `identify` says, without the objects.

Most callers send neither, and then both are noise: half a microsecond instead of four.
"""

import os
from typing import NamedTuple

from shared.trace import NOISE_BYTES, REQUEST_ID, TRACEPARENT, identify

_AT_ONCE = 128
_DIGITS = 2 * NOISE_BYTES
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16  # all zeros mean none in the recommendation


class Name(NamedTuple):
    request_id: str
    traceparent: str

    @property
    def fields(self) -> bytes:
        return f"{REQUEST_ID}: {self[0]}\r\n{TRACEPARENT}: {self[1]}\r\n".encode()


class Noise:
    """Random digits, taken from the system for a hundred requests at once."""

    def __init__(self) -> None:
        self._digits, self._at = "", 0

    def take(self) -> str:
        """`NOISE_BYTES` as hexadecimal digits."""
        at = self._at
        if at == len(self._digits):
            self._digits, at = os.urandom(NOISE_BYTES * _AT_ONCE).hex(), 0
        self._at = at + _DIGITS
        return self._digits[at : at + _DIGITS]


_NOISE = Noise()


def named(request_id: str | None, traceparent: str | None) -> Name:
    """From the two headers' values, None where absent."""
    digits = _NOISE.take()
    if request_id is None and traceparent is None:
        trace, span = digits[16:48], digits[48:]
        if trace != _NO_TRACE and span != _NO_SPAN:
            return Name(digits[:16], f"00-{trace}-{span}-00")
    identity = identify(request_id, traceparent, bytes.fromhex(digits))
    return Name(identity.request_id, identity.traceparent)
