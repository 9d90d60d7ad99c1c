"""What happens to a rollout, and what follows from it. Plain values; times are Unix seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cloud.rollouts.documents import Phase
from shared.fleet.reported import ReportedModel, ReportedProfile
from shared.fleet.telemetry import Telemetry

# Events


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time went by: timeouts, silence, windows, stages that may open."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A device's word about the section that this rollout changes."""

    device: str
    report: ReportedModel | ReportedProfile


@dataclass(frozen=True, slots=True)
class Measured:
    """A telemetry report."""

    device: str
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class Came:
    """It is online (again)."""

    device: str


@dataclass(frozen=True, slots=True)
class Went:
    """Its last will, or it said so."""

    device: str


@dataclass(frozen=True, slots=True)
class Removed:
    """Revoked, quarantined or deleted: no order reaches it any more."""

    device: str
    why: str


@dataclass(frozen=True, slots=True)
class Returned:
    """Not removed any more: its quarantine ended."""

    device: str


@dataclass(frozen=True, slots=True)
class Told:
    """An operator's command; refused ones never get here (`machine.check`)."""

    what: Literal["start", "pause", "resume", "approve", "skip", "abort", "undo", "retry"]
    by: str
    comment: str = ""


Event = Ticked | Reported | Measured | Came | Went | Removed | Returned | Told

# Commands


@dataclass(frozen=True, slots=True)
class Order:
    """Desired state for a device: the rollout's subject, at this stage."""

    device: str
    stage: Literal["shadow", "live"]
    attempt: int


@dataclass(frozen=True, slots=True)
class Restore:
    """Desired state for a device: what it had before."""

    device: str
    undo: bool
    """At once: it ran the new version."""


@dataclass(frozen=True, slots=True)
class SetBaseline:
    """It succeeded for the whole group, which has it from now on; newcomers get it."""


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the fleet's log."""

    kind: str
    words: str
    device: str | None = None


Command = Order | Restore | SetBaseline | Note


@dataclass(frozen=True, slots=True)
class Target:
    """A device of the rollout as it was when the rollout was made."""

    device: str
    before: str | None
    """The version that it should go back to; None: whatever its group has."""
    before_sha256: str | None = None
    time_zone: str = "UTC"
    """IANA name."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a step changed, for the store: devices with their new phase, whether the head did."""

    commands: tuple[Command, ...]
    devices: Mapping[str, Phase]
    head: bool
