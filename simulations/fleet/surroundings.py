"""What every simulated device shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from edge.updates.release import Release
from simulations.fleet.agenda import Agenda
from simulations.fleet.checkers.watcher import Watcher
from simulations.fleet.models import Traits
from simulations.fleet.network import Network
from simulations.fleet.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Surroundings:
    seed: int
    agenda: Agenda
    network: Network
    traffic: Traffic
    rng: Random
    watchers: Sequence[Watcher]
    traits: Sequence[Traits]
    """By the index that `Traffic` knows them by; the first is what devices were set up with."""
    releases: tuple[Release, ...]
    """What the signed metadata names, in the same order as far as they are released."""
    telemetry_s: float
    report_s: float
    """News of so long goes into one report; 0: each is sent at once."""
    on_wire: bool
    """Documents are sent as bytes, and read back."""
    audit_share: float = 0.01
    """Where the desired state names none."""
    trial_s: float = 60.0
    probe_s: float = 5.0
    index: Mapping[str, int] = field(default_factory=dict)
    """Version -> index into `traits`."""


def release(traits: Traits, number: int) -> Release:
    """`number`: 0 is what devices were set up with."""
    return Release(traits.version, traits.sha256, 2_000, number)
