"""Entries for tests of the log."""

from dataclasses import replace

from cloud.monitoring.log_entry import Entry, StageMs

ENTRY = Entry(
    at=1_767_225_600.25,
    request_id="request-1",
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    caller="camera-7",
    model="tiny-cloud",
    version="1.0.0",
    priority=1,
    rows=1,
    input_digest=bytes(range(16)),
    label="class-1",
    confidence=0.87654321,
    source="cloud",
    stages=StageMs(network=0.5, decode=0.01, queue=1.25, model=2.0, encode=0.02),
)


def numbered(number: int) -> Entry:
    return replace(ENTRY, request_id=str(number))
