"""A telemetry report put together: bounded whatever the device saw. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge.telemetry.health import SystemHealth
from edge.telemetry.tally import VersionTally
from shared.fleet.telemetry import LOSSES_MAX, Health, Shadow, Sketches, Telemetry

OTHERS = "other"
"""Losses of further kinds than a report has room for."""
_NAME_CHARS, _TROUBLE_CHARS = 40, 500


@dataclass(frozen=True, slots=True)
class Moment:
    boot: str
    sequence: int
    at: float
    """Unix seconds by the device's clock."""
    uptime_s: float
    interval_s: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What is not in the tally."""

    outbox: tuple[int, int]
    """Rows, bytes."""
    counters: Mapping[str, int]
    losses: Mapping[str, int]
    trouble: str


def report(
    moment: Moment,
    tally: VersionTally,
    sketches: Sketches | None,
    shadow: Shadow | None,
    facts: Facts,
    system: SystemHealth,
) -> Telemetry:
    counters = facts.counters
    published = counters.get("published_bytes", 0) + counters.get("fleet_published_bytes", 0)
    health = Health(
        outbox_rows=facts.outbox[0], outbox_bytes=facts.outbox[1],
        disk_free_bytes=system.disk_free_bytes, memory_bytes=system.memory_bytes,
        links_lost=counters.get("link_lost", 0), published_bytes=published,
        trouble=facts.trouble[:_TROUBLE_CHARS],
    )  # fmt: skip
    return Telemetry(
        boot=moment.boot, sequence=moment.sequence, at=moment.at,
        uptime_s=max(moment.uptime_s, 0.0), interval_s=moment.interval_s,
        tally=tally.document(), sketches=sketches, shadow=shadow, health=health,
        losses=bounded_losses(facts.losses),
    )  # fmt: skip


def bounded_losses(losses: Mapping[str, int]) -> dict[str, int]:
    """By name, at most `LOSSES_MAX`; the rest is under `OTHERS`."""
    out, rest = dict[str, int](), 0
    for name, count in sorted(losses.items()):
        if len(out) < LOSSES_MAX - 1 and len(name) <= _NAME_CHARS and name != OTHERS:
            out[name] = count
        else:
            rest += count
    return out | {OTHERS: rest} if rest else out
