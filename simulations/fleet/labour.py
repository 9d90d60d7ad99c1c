"""How long each work for a candidate takes on a device, and how it ends."""

from dataclasses import dataclass
from random import Random

from edge.updates.events import (
    Downloaded,
    Event,
    Failed,
    Fetch,
    Interrupted,
    Labour,
    NotRestored,
    Probe,
    Probed,
    Rejected,
    Restore,
    Restored,
    Stage,
    Tried,
    Try,
    Verified,
    Verify,
)
from edge.updates.trial import latency_fault
from simulations.fleet.models import Traits
from simulations.fleet.nature import Nature

TRIAL_SAMPLES = 200
_SLOWER_MAX, _LATENCY_MS, _LATENCY_MS_MAX = 3.0, 4.0, 200.0
_DAMAGED = 0.002
"""Share of kept versions that do not open any more."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What the work meets."""

    nature: Nature
    candidate: Traits
    active: Traits
    probe_s: float
    trial_s: float
    connected: bool


def duration_s(command: Labour, bench: Bench, rng: Random) -> float:
    match command:
        case Fetch():
            return bench.nature.download_s * rng.uniform(0.8, 1.2)
        case Verify() | Restore():
            return 1.0
        case Probe():
            return bench.probe_s * rng.uniform(0.8, 1.2)
        case Try() | Stage():
            return bench.trial_s


def outcome(command: Labour, bench: Bench, rng: Random) -> Event | None:
    """At its end. None: it goes on (a shadow that nothing speaks against)."""
    number = command.generation
    match command:
        case Fetch():
            if bench.nature.disk_full:
                return Failed(number, "no room: the disk is full")
            if not bench.connected:
                return Interrupted(number, "the network is away")
            return Downloaded(number)
        case Verify():
            return Verified(number)
        case Restore():
            if rng.random() < _DAMAGED:
                return NotRestored(number, "it is damaged")
            return Restored(number)
        case Probe():
            return _probed(number, bench)
        case Stage() | Try():
            failed = 1.0 - (1.0 - bench.candidate.fails) ** TRIAL_SAMPLES
            if not bench.nature.quiet and rng.random() < failed:
                return Rejected(number, "answered a live sample with NaN or infinity")
            return Tried(number, "as the active model") if isinstance(command, Try) else None


def _probed(number: int, bench: Bench) -> Event:
    candidate = bench.candidate
    if candidate.breaks == "load":
        return Rejected(number, "the probe's process ended by signal 11 at load")
    if bench.nature.bad_hardware or candidate.breaks in ("nan", "golden"):
        why = "answers NaN" if candidate.breaks == "nan" else "differs from the reference"
        return Rejected(number, f"golden samples: {why}", golden=True)
    fault = latency_fault(
        _LATENCY_MS * bench.nature.slowed * candidate.slowness,
        _LATENCY_MS * bench.nature.slowed * bench.active.slowness,
        _LATENCY_MS_MAX,
        _SLOWER_MAX,
    )
    return Rejected(number, fault) if fault else Probed(number, "as the reference")
