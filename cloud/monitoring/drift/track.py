"""What is kept of one device, and of one version in one group. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloud.monitoring.drift.accuracy import AuditWindow
from cloud.monitoring.drift.counting import Meter
from cloud.monitoring.drift.documents import Kind
from cloud.monitoring.drift.window import DeviceWindow, GroupWindow

if TYPE_CHECKING:
    from cloud.monitoring.drift.evidence import Evidence

Of = tuple[str, str]
"""A model and its version."""


@dataclass(slots=True)
class DeviceTrack:
    name: str
    group: str
    of: Of
    meter: Meter | None
    window: DeviceWindow
    heard_at: float
    interval_s: float
    is_changed: bool = False
    """Since the last look."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A device that was silent, or late, when the record was written."""

    name: str
    group: str
    of: Of
    silence_s: float
    interval_s: float


@dataclass(slots=True)
class Found:
    """What looks have found about one version in one group; it outlives a restart."""

    at_peace: set[Kind] = field(default_factory=set)
    """Kinds that looks have found gone, or never there, with this version."""
    drifts: set[Kind] = field(default_factory=set)
    """Kinds that the last look found, or one before it, and that are not gone since."""
    left_at: float | None = field(default=None, compare=False)
    """When a device that ran it was heard last, where the group had to make room since."""

    def is_clean(self, kind: Kind) -> bool:
        """It does not drift, or did not when it was last seen."""
        return kind in self.at_peace and kind not in self.drifts


@dataclass(slots=True)
class GroupTrack:
    """One version in one group."""

    name: str
    of: Of
    window: GroupWindow
    audits: AuditWindow
    devices: int = 0
    """That run the version."""
    members: dict[str, DeviceTrack] = field(default_factory=dict)
    """The same, by name."""
    silent: int = 0
    """Of them, at the last look."""
    heard_at: float = 0.0
    """When a device that runs the version was, be it that it said nothing new."""
    is_changed: bool = False
    is_audited: bool = False
    """There are new audits since the last look."""
    found: Found = field(default_factory=Found)
    calm: Counter[Kind] = field(default_factory=Counter)
    """Successive looks that found a kind gone."""
    seen: "Evidence | None" = None
    """What the window showed at the last look at it."""

    @property
    def speaking(self) -> int:
        """Devices among which its windows are divided."""
        return max(1, self.devices - self.silent)
