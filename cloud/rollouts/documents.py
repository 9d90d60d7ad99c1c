"""A rollout as operators write it and as the API gives it. Frozen, bounded, no I/O.

Times are Unix seconds by the region's clock, durations in seconds, shares 0..1.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from cloud.document import Actor, DeviceName, Document
from cloud.fleet.documents import GroupName, SelectorText
from shared.bundle.manifest import Name, Sha256, Share, Version
from shared.fleet.document import RolloutId
from shared.fleet.profile import TimeSpan

_Seconds = Annotated[float, Field(gt=0, le=90 * 86_400)]
_Waves = Annotated[
    tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1, max_length=20)
]
CriterionText = Annotated[str, StringConstraints(min_length=1, max_length=200)]
CRITERIA: tuple[str, ...] = (
    "install_failures <= 0.02",
    "golden_failures <= 0",
    "silent <= 0.05",
    "inference_failures <= 0.001",
    "p95_latency_ms <= control * 1.5",
    "escalation_rate <= control + 0.05",
    "disagreement <= control + 0.02",
    "confidence_shift <= 0.15",
    "accuracy_loss <= 0.005",
)
"""The default; `cloud/rollouts/criteria.py` says what each measures."""


class ModelSubject(Document):
    kind: Literal["model"] = "model"
    model: Name
    version: Version
    manifest_sha256: Sha256


class ProfileSubject(Document):
    kind: Literal["profile"] = "profile"
    name: Name
    version: Annotated[int, Field(ge=1, le=10**6)]
    sha256: Sha256


Subject = Annotated[ModelSubject | ProfileSubject, Field(discriminator="kind")]


RISK_MIN: Final = 1e-6
"""Less is nobody's wish, and much less is beyond what floating point can judge by."""


class RolloutSpec(Document):
    subject: Subject
    group: GroupName
    selector: SelectorText = ""
    """Narrows the group; empty: all of it."""
    seed: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    """Places devices: the order is by SHA-256 of seed and device id, the same for everybody."""
    shadow_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = 3600.0
    """At most so long the canary's devices run it in shadow; 0: no shadow stage. Profiles have none."""
    shadow_samples: Annotated[int, Field(ge=0, le=10**9)] = 2000
    """Of the whole canary, before the shadow stage may end."""
    canary: Share = 0.05
    """Of the devices; at least one."""
    waves: _Waves = (0.25, 0.5, 1.0)
    """Cumulative shares after the canary; the last is 1. `exponential(canary)` in plan.py makes them."""
    wave_s: _Seconds = 3600.0
    """Each stage gathers evidence for at least so long after its last device took the version."""
    watch_s: Annotated[float, Field(ge=0, le=90 * 86_400)] = 48 * 3600.0
    """After the last wave, before it has succeeded; evidence can still end it."""
    samples_min: Annotated[int, Field(ge=1, le=10**9)] = 500
    """Live inferences of the cohort on the new version in a stage, before its evidence says anything
    good. Bad evidence stops at once, as soon as it is sure."""
    done_samples: Annotated[int, Field(ge=1, le=10**6)] = 50
    """A device is done after so many live inferences on the new version, not at its install."""
    start_timeout_s: _Seconds = 24 * 3600.0
    """A device that does not take its order within this leaves the denominator, and stays eligible."""
    device_timeout_s: _Seconds = 4 * 3600.0
    """From its order's acceptance to done; then it has timed out, which is a failure."""
    silence_s: _Seconds = 900.0
    """A device on the new version that says nothing for so long is silent, which is a failure."""
    window: Annotated[tuple[TimeSpan, ...], Field(max_length=16)] = ()
    """Maintenance hours in each device's own time zone; empty: always. Undoing does not wait."""
    approvals: Annotated[
        tuple[Literal["shadow", "canary", "wave", "watch"], ...], Field(max_length=4)
    ] = ()
    """Before which stages a person must approve ("wave": each)."""
    criteria: Annotated[tuple[CriterionText, ...], Field(max_length=20)] = CRITERIA
    risk: Annotated[float, Field(ge=RISK_MIN, lt=0.5)] = 0.01
    """Probability that a good version is stopped by a criterion's noise, over the whole rollout
    however often it is looked at; shared among the criteria."""
    worse: Annotated[float, Field(gt=0, lt=1)] = 0.02
    """A loss of accuracy that the shadow must not let through."""
    miss_risk: Annotated[float, Field(ge=RISK_MIN, lt=0.5)] = 0.05
    """Probability that it lets a version through that is worse by `worse`; 0.05 as is usual."""
    audit_share: Share | None = 0.05
    """Of confident samples of the cohort and the control while evidence is gathered."""
    on_bad: Literal["undo", "pause"] = "undo"
    in_flight_max: Annotated[int, Field(ge=1, le=10**6)] = 10_000
    """Devices that install at once."""


class RolloutStatus(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    ABORTED = "aborted"  # its devices stay as they are, or go back: see undoing
    ROLLED_BACK = "rolled_back"
    SUCCEEDED = "succeeded"


class Phase(StrEnum):
    """Of one device in one rollout, for one attempt. From DONE on they are ends."""

    QUEUED = "queued"
    ORDERED = "ordered"  # desired state is out
    ACCEPTED = "accepted"
    DOWNLOADING = "downloading"
    VERIFIED = "verified"
    STAGED = "staged"  # in shadow
    TRIAL = "trial"
    COMMITTED = "committed"  # runs it; not done before `done_samples`
    DONE = "done"
    REJECTED = "rejected"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"  # by itself
    TIMED_OUT = "timed_out"
    SILENT = "silent"
    LEFT = "left"  # the denominator: it never took its order, or was revoked, quarantined, removed
    UNDOING = "undoing"  # ordered back
    UNDONE = "undone"


class StageView(Document):
    kind: Literal["shadow", "canary", "wave", "watch"]
    number: int
    devices: int
    done: int
    failed: int
    in_flight: int
    left: int
    opened_at: float | None = None
    ended_at: float | None = None
    waits_for: str = ""
    """What it needs before the next opens, in words."""


class CriterionView(Document):
    text: CriterionText
    verdict: Literal["holds", "violated", "open", "no data"]
    cohort: float | None = None
    cohort_low: float | None = None
    cohort_high: float | None = None
    control: float | None = None
    control_low: float | None = None
    control_high: float | None = None
    samples: int = 0
    control_samples: int = 0
    words: str = ""


class RolloutView(Document):
    """Everything about a rollout that is not about one device."""

    id: RolloutId
    spec: RolloutSpec
    status: RolloutStatus
    undoing: bool = False
    why: str = ""
    stage: int = 0
    """Index into `stages` of the one that is open."""
    stages: tuple[StageView, ...] = ()
    criteria: tuple[CriterionView, ...] = ()
    phases: dict[str, int] = Field(default_factory=dict)
    """Devices by phase."""
    attempt: int = 1
    waiting_for_approval: bool = False
    created_by: Actor
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    revision: int = 0
    """Rises with every operator's command; compare-and-set is by it."""


class DeviceInRollout(Document):
    device: DeviceName
    stage: int
    phase: Phase
    attempt: int = 1
    since: float = 0.0
    why: str = ""
    before: Version | str | None = None
    """What it had, and goes back to."""


class PlannedStage(Document):
    kind: Literal["shadow", "canary", "wave", "watch"]
    number: int
    devices: tuple[DeviceName, ...]
    """At most the first hundred; `count` has all."""
    count: int
    earliest_s: float
    """After the start, if everything goes well and devices are there."""
    needs: tuple[str, ...]
    """The evidence, in words."""
    approval: bool = False


class RolloutPlan(Document):
    spec: RolloutSpec
    devices: int
    stages: tuple[PlannedStage, ...]
    warnings: tuple[str, ...] = ()
