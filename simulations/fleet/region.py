"""What a simulated control plane stands in, and how it ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cloud.fleet.device_settings import PresenceSettings
from simulations.fleet.checkers.watcher import Watcher
from simulations.fleet.network import Network


class Killed(Exception):
    """The process ended here."""


@dataclass(frozen=True, slots=True)
class Region:
    """What a control plane needs and does not own."""

    network: Network
    watchers: Sequence[Watcher]
    fate: Callable[[str], None]
    """Called at each point where it may die; raises `Killed`."""
    record: Callable[[str, str, object], None]
    """Kind, device or rollout, and what happened: for the trace."""
    presence: PresenceSettings
    on_wire: bool
    tick_s: float
    keeps: bool
    """Rollouts are written down. False: nobody kills this one, so nobody would read them."""
