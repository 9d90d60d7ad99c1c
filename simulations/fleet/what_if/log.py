"""A recorded fleet log, read once: what each version did, and what a rollout was told.

Three kinds of lines are read: those of a trace (`simulations/fleet/trace.py`), telemetry as
`{"device": ..., "telemetry": {...}}`, and messages as `mosquitto_sub -F %j` writes them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from shared.errors import Malformed, TooLarge
from shared.fleet.telemetry import BYTES_MAX, CONFIDENCE_BINS, LATENCY_BINS, Tally, Telemetry
from shared.topics import fleet_message
from simulations.fleet.trace import read

TALLIES_MAX: Final = 2_000_000
"""One version in one life of one agent; about 1 KB each."""
COUNTS: Final = (
    "samples", "escalated", "audited", "answered", "disagreed", "audit_answered", "audit_disagreed",
    "failed",
)  # fmt: skip


@dataclass(slots=True)
class Total:
    """Of all devices and lives."""

    tallies: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    latency: np.ndarray = field(default_factory=lambda: np.zeros(LATENCY_BINS, np.int64))
    confidence: np.ndarray = field(default_factory=lambda: np.zeros(CONFIDENCE_BINS, np.int64))
    """Over all classes."""

    def add(self, tally: Tally) -> None:
        self.tallies += 1
        for name in COUNTS:
            self.counts[name] += getattr(tally, name)
        self.latency += np.array(tally.latency)
        for row in tally.confidence:
            self.confidence += np.array(row)


@dataclass(frozen=True, slots=True)
class Log:
    versions: Mapping[str, Total]
    """In the order of their names."""
    bytes_per_message: float | None
    """MQTT payload of an escalation or audit; None: the log does not say."""
    simulated: Mapping[str, object] | None
    """The first line of a trace."""


def telemetry_of(line: Mapping[str, object], where: str) -> tuple[str, Telemetry] | None:
    """The device and its report; None for a line of another kind. Raises `Malformed`."""
    if isinstance(topic := line.get("topic"), str):
        device, kind = fleet_message(topic)
        if kind != "tel":
            return None
        payload = line.get("payload")
        content = payload if isinstance(payload, str) else json.dumps(payload)
    elif isinstance(device_name := line.get("device"), str) and "telemetry" in line:
        device, content = device_name, json.dumps(line["telemetry"])  # type: ignore[assignment]  # a name
    else:
        return None
    try:
        return device, Telemetry.from_bytes(content.encode(), BYTES_MAX)
    except Malformed as error:
        raise Malformed(f"{where}: {error}") from error


def reports(path: Path) -> Iterator[tuple[str, Telemetry]]:
    for number, line in enumerate(read(path), start=1):
        found = telemetry_of(line, f"{path}, line {number}")
        if found is not None:
            yield found


def read_log(path: Path) -> Log:
    """Counters are cumulative, so of each tally the newest report has all.

    Raises `Malformed` for a file that is no log or has no telemetry, `TooLarge` for one with more
    than `TALLIES_MAX` tallies.
    """
    newest: dict[tuple[str, str, int], tuple[int, Tally]] = {}
    published: dict[tuple[str, str], tuple[int, int, int]] = {}
    for device, report in reports(path):
        key = device, report.boot, report.tally.started
        before = newest.get(key)
        if before is None and len(newest) >= TALLIES_MAX:
            raise TooLarge(f"{path}: more than {TALLIES_MAX:,} tallies; cut it into days")
        if before is None or before[0] < report.sequence:
            newest[key] = report.sequence, report.tally
        life = device, report.boot
        sent = report.tally.escalated + report.tally.audited
        if life not in published or published[life][0] < report.sequence:
            published[life] = report.sequence, report.health.published_bytes, sent
    if not newest:
        raise Malformed(f"{path}: no telemetry in it; want a trace, or messages of hy/v1/+/up/tel")
    versions: dict[str, Total] = {}
    for _, tally in newest.values():
        versions.setdefault(tally.version, Total()).add(tally)
    all_bytes = sum(one[1] for one in published.values())
    all_sent = sum(one[2] for one in published.values())
    first = next(read(path))
    return Log(
        versions=dict(sorted(versions.items())),
        bytes_per_message=all_bytes / all_sent if all_bytes and all_sent else None,
        simulated=first if first.get("kind") == "simulated" else None,
    )
