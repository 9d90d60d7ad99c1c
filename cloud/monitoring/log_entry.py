"""One logged answer and its line of JSON. Pure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite

TEXT_MAX = 128  # characters of any name: some come from callers
LINE_BYTES_MAX = 32 * 1024  # of eight names and eight marks, a character taking twelve bytes
_MARKS_MAX = 8
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class StageMs:
    """Where a request's time went, in ms; None: it did not pass there."""

    network: float | None = None
    decode: float | None = None
    queue: float | None = None
    model: float | None = None
    encode: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Of the rows of one request, label and confidence are the least confident one's."""

    at: float  # seconds since 1970
    request_id: str | None
    trace_id: str | None
    caller: str | None
    model: str
    version: str
    priority: int
    rows: int
    input_digest: bytes | None = None  # `digest_of` the rows
    label: str | None = None
    confidence: float | None = None
    source: str | None = None  # cloud, cache, rule; None for an error
    error: str | None = None  # its class
    stages: StageMs = StageMs()
    marks: tuple[str, ...] = ()  # low_confidence, out_of_range:<feature>


def line_of(entry: Entry) -> bytes:
    """JSON in ASCII, ended by the only newline in it."""
    stages = entry.stages
    line = {
        "at": datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds"),
        "request_id": _text(entry.request_id),
        "trace_id": _text(entry.trace_id),
        "caller": _text(entry.caller),
        "model": _text(entry.model),
        "version": _text(entry.version),
        "priority": entry.priority,
        "rows": entry.rows,
        "input_digest": None if entry.input_digest is None else entry.input_digest.hex(),
        "label": _text(entry.label),
        "confidence": _number(entry.confidence),
        "source": _text(entry.source),
        "error": _text(entry.error),
        "ms": {
            "network": _number(stages.network),
            "decode": _number(stages.decode),
            "queue": _number(stages.queue),
            "model": _number(stages.model),
            "encode": _number(stages.encode),
        },
        "marks": [_text(mark) for mark in entry.marks[:_MARKS_MAX]],
    }
    return _encode(line).encode("ascii") + b"\n"


def _text(value: str | None) -> str | None:
    return None if value is None else value[:TEXT_MAX]


def _number(value: float | None) -> float | None:
    """Four digits after the point; NaN and infinity are no JSON."""
    return None if value is None or not isfinite(value) else round(float(value), 4)
