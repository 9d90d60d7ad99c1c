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
    fields: bytes


class Names:
    """Of requests that came without; made a hundred at once, with noise that the system is asked for
    once.
    """

    def __init__(self) -> None:
        self._ready: list[Name] = []

    def take(self) -> Name:
        if not self._ready:
            digits = os.urandom(NOISE_BYTES * _AT_ONCE).hex()
            self._ready = [
                _name(each[:16], f"00-{each[16:48]}-{each[48:]}-00")
                for each in (digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS))
                if each[16:48] != _NO_TRACE and each[48:] != _NO_SPAN
            ]
        return self._ready.pop()


_NAMES = Names()


def named(request_id: str | None, traceparent: str | None) -> Name:
    """From the two headers' values, None where absent."""
    if request_id is None and traceparent is None:
        return _NAMES.take()
    identity = identify(request_id, traceparent, os.urandom(NOISE_BYTES))
    return _name(identity.request_id, identity.traceparent)


def _name(request_id: str, traceparent: str) -> Name:
    fields = f"{REQUEST_ID}: {request_id}\r\n{TRACEPARENT}: {traceparent}\r\n"
    return Name(request_id, traceparent, fields.encode())
