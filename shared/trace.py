"""Which request this is: its id, and its place in a trace (W3C Trace Context, level 1). Pure.

A malformed `traceparent` is ignored and a new trace begun, as section 3.2 of the recommendation
asks; `tracestate` belongs to vendors, and there is none here.
"""

import re
from dataclasses import dataclass

REQUEST_ID, TRACEPARENT = "X-Request-Id", "traceparent"
NOISE_BYTES = 32  # of randomness for one request: 8 for its id, 16 for a trace, 8 for a span
_REQUEST_ID = re.compile(r"[!-~]{1,128}")
_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<future>-.*)?"
)
_SAMPLED = 0x01  # the only flag of version 00; others must not be passed on


@dataclass(frozen=True, slots=True)
class Parent:
    """Whoever called: `trace_id` 32 and `span_id` 16 lowercase hexadecimal digits."""

    trace_id: str
    span_id: str
    sampled: bool


@dataclass(frozen=True, slots=True)
class Identity:
    """One request's own. `parent_span_id` is None where the trace begins here."""

    request_id: str
    trace_id: str
    span_id: str
    parent_span_id: str | None
    sampled: bool

    @property
    def traceparent(self) -> str:
        """For whoever is called next, and for the response."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"

    @property
    def headers(self) -> dict[str, str]:
        return {REQUEST_ID: self.request_id, TRACEPARENT: self.traceparent}


def identify(request_id: str | None, traceparent: str | None, noise: bytes) -> Identity:
    """From the two headers' values, None where absent; `noise` is `NOISE_BYTES` random bytes."""
    parent = parse_traceparent(traceparent)
    return Identity(
        request_id=_kept(request_id) or noise[:8].hex(),
        trace_id=parent.trace_id if parent else _not_zero(noise[8:24].hex()),
        span_id=_not_zero(noise[24:32].hex()),
        parent_span_id=parent.span_id if parent else None,
        sampled=parent.sampled if parent else False,
    )


def parse_traceparent(text: str | None) -> Parent | None:
    """None for what is absent or not as sections 3.2.1 to 3.2.3 have it."""
    found = None if text is None else _TRACEPARENT.fullmatch(text.strip(" \t"))
    if found is None or found["version"] == "ff":
        return None
    if found["version"] == "00" and found["future"] is not None:
        return None
    if not int(found["trace"], 16) or not int(found["parent"], 16):
        return None
    sampled = bool(int(found["flags"], 16) & _SAMPLED)
    return Parent(found["trace"], found["parent"], sampled)


def _kept(request_id: str | None) -> str | None:
    """1 to 128 visible ASCII characters; anything else could not be echoed or logged as it is."""
    return request_id if request_id and _REQUEST_ID.fullmatch(request_id) else None


def _not_zero(digits: str) -> str:
    """All zeros mean none in the recommendation."""
    return digits if digits.strip("0") else digits[:-1] + "1"
