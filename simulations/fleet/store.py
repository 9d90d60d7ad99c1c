"""What the control plane wrote down: it survives every kill. A commit is whole or nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cloud.fleet.documents import Baseline, Group
from cloud.fleet.presence import PresenceState
from shared.fleet.desired import DesiredModel
from shared.fleet.reported import ReportedModel
from simulations.fleet.models import MODEL

_NEVER = PresenceState()


@dataclass(slots=True)
class Row:
    """Of one device."""

    desired: DesiredModel | None = None
    reported: ReportedModel | None = None
    presence: PresenceState = _NEVER
    removed: bool = False
    """By an operator: no rollout takes it."""


@dataclass(slots=True)
class Writes:
    """Of one commit."""

    desired: dict[str, DesiredModel] = field(default_factory=dict)
    reported: dict[str, ReportedModel] = field(default_factory=dict)
    presence: dict[str, PresenceState] = field(default_factory=dict)
    removed: dict[str, bool] = field(default_factory=dict)
    away_until: dict[str, float | None] = field(default_factory=dict)
    """None: its quarantine is over."""
    heads: dict[str, bytes] = field(default_factory=dict)
    rows: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """By rollout and device."""
    baseline: Baseline | None = None


class Store:
    def __init__(self, baseline: Baseline) -> None:
        self.group = Group(name="all", models={MODEL: baseline})
        self.devices: dict[str, Row] = {}
        self.heads: dict[str, bytes] = {}
        self.rows: dict[str, dict[str, bytes]] = {}
        self.away_until: dict[str, float] = {}
        """Quarantined for flapping."""
        self.unpublished: dict[str, int] = {}
        """Device -> generation, in the order of the commits."""
        self.commits = 0

    def row(self, device: str) -> Row:
        found = self.devices.get(device)
        if found is None:
            found = self.devices[device] = Row()
        return found

    def baseline(self) -> Baseline:
        return self.group.models[MODEL]

    def commit(self, writes: Writes) -> None:
        self.commits += 1
        for device, document in writes.desired.items():
            self.row(device).desired = document
            self.unpublished[device] = document.generation
        for device, report in writes.reported.items():
            self.row(device).reported = report
        for device, state in writes.presence.items():
            self.row(device).presence = state
        for device, removed in writes.removed.items():
            self.row(device).removed = removed
        for device, until in writes.away_until.items():
            if until is None:
                self.away_until.pop(device, None)
            else:
                self.away_until[device] = until
        self.heads.update(writes.heads)
        for rollout, rows in writes.rows.items():
            self.rows.setdefault(rollout, {}).update(rows)
        if writes.baseline is not None:
            self.group = self.group.model_copy(update={"models": {MODEL: writes.baseline}})

    def published(self, sent: Mapping[str, int]) -> None:
        for device, generation in sent.items():
            if self.unpublished.get(device) == generation:
                del self.unpublished[device]

    def forget_published(self) -> None:
        """The broker lost its memory: all desired state has to be published again."""
        for device, row in self.devices.items():
            if row.desired is not None:
                self.unpublished[device] = row.desired.generation
