"""What goes into a turn of the rollouts, and what comes of it. Pure."""

from dataclasses import dataclass, field

from cloud.fleet.driving.commands import Verb
from cloud.rollouts.documents import RolloutView
from cloud.rollouts.events import Changes, Note, Order, Restore, SetBaseline
from shared.errors import HybridgeError


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's, for one rollout; `revision`: what he saw last, if he said."""

    rollout: str
    verb: Verb
    by: str
    comment: str
    revision: int | None


@dataclass(slots=True)
class Turned:
    """What a turn came to."""

    views: list[RolloutView] = field(default_factory=list)
    """Of the rollouts that changed."""
    answers: list[RolloutView | HybridgeError] = field(default_factory=list)
    """To each command."""
    wrote: bool = False
    ordered: bool = False
    ended: bool = False
    """Some let go of their devices."""


@dataclass(slots=True)
class Step:
    """What a rollout's steps in one turn came to."""

    orders: dict[str, Order | Restore] = field(default_factory=dict)
    """The last one of each device."""
    notes: list[Note] = field(default_factory=list)
    devices: dict[str, None] = field(default_factory=dict)
    head: bool = False
    sets_baseline: bool = False
    starts: bool = False
    """Its devices take the place of the draft's."""

    def add(self, changes: Changes) -> None:
        self.devices.update(dict.fromkeys(changes.devices))
        self.head = self.head or changes.head
        for command in changes.commands:
            match command:
                case Order() | Restore():
                    self.orders[command.device] = command
                case SetBaseline():
                    self.sets_baseline = True
                case Note():
                    self.notes.append(command)

    @property
    def is_nothing(self) -> bool:
        return not (self.orders or self.notes or self.devices or self.head or self.sets_baseline)
