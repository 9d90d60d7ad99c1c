"""One device in one rollout, as the machine keeps it: a few hundred bytes, changed in place."""

import json
from dataclasses import dataclass
from typing import Literal

from cloud.rollouts.documents import DeviceInRollout, Phase
from cloud.rollouts.meter import Meter

WHY_MAX = 300


@dataclass(slots=True)
class Member:
    device: str
    place: int
    """In the order of the rollout; it never changes."""
    cut: int
    """0: of the canary; from 1 on: of that wave."""
    stage: int
    """Index of the live stage that it belongs to."""
    before: str | None
    before_sha256: str | None
    zone: str
    phase: Phase = Phase.QUEUED
    attempt: int = 1
    since: float = 0.0
    """When its phase began."""
    why: str = ""
    ordered: Literal["", "shadow", "live"] = ""
    """The newest order that is out; a device whose order was taken back has none."""
    taken_at: float | None = None
    """When it was first heard to work on that order."""
    opens_at: float = 0.0
    """While it is queued: when its maintenance window lets the order out."""
    heard_at: float | None = None
    online: bool = True
    """Until its last will says otherwise."""
    removed: bool = False
    runs_new: bool = False
    """By its newest report."""
    sequence: int = -1
    """Of its newest report."""
    reported_at: float = 0.0
    """When that was made, by the device's clock."""
    golden: bool = False
    """Its golden samples failed."""
    silences: int = 0
    relapses: int = 0
    """Times that it took the new version after it was back."""
    samples: int = 0
    """Live inferences on the new version, in this attempt."""
    failures: int = 0
    """Of inferences on the new version, in this attempt."""
    meter: Meter | None = None
    """None: it has sent no telemetry yet."""
    listed_at: float = float("inf")
    """When the heap of deadlines looks at it next; not kept, the heap is built again."""

    def view(self) -> DeviceInRollout:
        return DeviceInRollout(
            device=self.device, stage=self.stage, phase=self.phase, attempt=self.attempt,
            since=self.since, why=self.why, before=self.before,
        )  # fmt: skip

    def to_record(self) -> bytes:
        """JSON: a list, since a region keeps one for each device."""
        return json.dumps(
            [
                self.device, self.place, self.cut, self.stage, self.before, self.before_sha256,
                self.zone, self.phase.value, self.attempt, self.since, self.why, self.ordered,
                self.taken_at, self.opens_at, self.heard_at, self.online, self.removed,
                self.runs_new, self.sequence, self.reported_at, self.golden, self.silences,
                self.relapses, self.samples, self.failures, self.meter.to_list() if self.meter else None,
            ],
            separators=(",", ":"),
        ).encode()  # fmt: skip

    @classmethod
    def from_record(cls, record: bytes) -> "Member":
        """The other way round; records come from the region's own store."""
        fields = json.loads(record)
        fields[7] = Phase(fields[7])
        fields[-1] = None if fields[-1] is None else Meter.from_list(fields[-1])
        return cls(*fields)
