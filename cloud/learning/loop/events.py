"""What a cycle is told: facts that were read outside, and a person's word. Pure.

An answer says of which revision of the cycle its command was; the cycle has moved on, perhaps, and
then it says nothing any more. So a second copy of it changes nothing either.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cloud.feedback.documents import DataSetVersion
from cloud.monitoring.drift.documents import Alarm
from cloud.registry.documents import State
from cloud.rollouts.documents import RolloutStatus
from cloud.training.documents import Job
from shared.bundle.manifest import Version


@dataclass(frozen=True, slots=True)
class Paired:
    """Two who answered the same samples, by who was right."""

    both: int = 0
    first: int = 0
    """The first alone."""
    second: int = 0
    neither: int = 0

    @property
    def count(self) -> int:
        return self.both + self.first + self.second + self.neither

    @property
    def gain(self) -> float:
        """Share of samples by which the first is right more often than the second; of none, nan."""
        return (self.first - self.second) / self.count if self.count else float("nan")


@dataclass(frozen=True, slots=True)
class Counted:
    samples: int
    people: Paired
    """The cloud against the edge by people's labels, on what would be the holdout."""


@dataclass(frozen=True, slots=True)
class Built:
    data_set: DataSetVersion


@dataclass(frozen=True, slots=True)
class Chosen:
    before: Version
    teacher: Version
    version: Version
    """The new one's."""


@dataclass(frozen=True, slots=True)
class Submitted:
    job: str


@dataclass(frozen=True, slots=True)
class JobSeen:
    job: Job
    figures: Mapping[str, float] = field(default_factory=dict)
    """Of its run, when it is done."""


@dataclass(frozen=True, slots=True)
class EvaluationSeen:
    evaluation: str
    state: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class VersionSeen:
    state: State
    is_approved: bool
    """By somebody, since its model's gate was set."""
    why: str = ""
    needs_nobody: bool = False
    """Its model's gate lets a version go out by its figures alone. That is nobody's word."""


@dataclass(frozen=True, slots=True)
class RolloutMade:
    rollout: str | None
    """None: there is no fleet; devices take what is released."""


@dataclass(frozen=True, slots=True)
class RolloutSeen:
    """`status` None: there is none."""

    status: RolloutStatus | None
    is_watching: bool = False
    """In its last stage."""
    waits_for: str = ""
    why: str = ""
    alarms: tuple[Alarm, ...] = ()
    """On the new version, opened since the rollout."""


@dataclass(frozen=True, slots=True)
class CleanedUp:
    words: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The command was refused, and will be again."""

    words: str


@dataclass(frozen=True, slots=True)
class Away:
    """It cannot be done now; it is tried again."""

    words: str


Answer = (
    Counted | Built | Chosen | Submitted | JobSeen | EvaluationSeen | VersionSeen
    | RolloutMade | RolloutSeen | CleanedUp | Refused | Away
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Go:
    """A person says go before the arrow that the cycle asks for."""

    by: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    by: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """`revision`: of the cycle when the command was given."""

    revision: int
    answer: Answer


Event = Answered | Go | Stop
