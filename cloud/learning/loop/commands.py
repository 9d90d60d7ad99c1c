"""What a cycle has done for it, one thing at a time. Pure.

A command is stored with the cycle before anything is done, and done again after a crash: each finds
again what it made before (a data set by its name and spec, a job by its key, a rollout by its seed),
so that twice is as once. Commands of `WATCHES` change nothing and may be dropped at any moment.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from cloud.document import Document
from cloud.feedback.documents import DataSetSpec
from cloud.fleet.documents import EVERYBODY, GroupName
from cloud.learning.documents import Words
from cloud.training.documents import JobId, JobSpec
from shared.bundle.manifest import Name, Version


class Count(Document):
    """Samples that a data set could have, and what people's labels of its holdout say."""

    kind: Literal["count"] = "count"
    spec: DataSetSpec
    teacher: Name
    group: GroupName = EVERYBODY
    """Of its devices alone, where the spec names neither devices nor sites."""


class Build(Document):
    kind: Literal["build"] = "build"
    name: Name
    """Of this cycle alone, unless somebody else takes it; then the cycle makes the next version."""
    spec: DataSetSpec
    group: GroupName = EVERYBODY
    """As `Count.group`."""


class Choose(Document):
    """Which versions are current, and the number that a new one would have."""

    kind: Literal["choose"] = "choose"
    model: Name
    teacher: Name


class Submit(Document):
    kind: Literal["submit"] = "submit"
    key: str
    spec: JobSpec


class WatchJob(Document):
    kind: Literal["watch_job"] = "watch_job"
    job: JobId


class Evaluate(Document):
    """Push it, where its job did not, and have the registry measure it."""

    kind: Literal["evaluate"] = "evaluate"
    model: Name
    version: Version
    job: JobId


class WatchEvaluation(Document):
    kind: Literal["watch_evaluation"] = "watch_evaluation"
    model: Name
    version: Version
    evaluation: str


class Approve(Document):
    kind: Literal["approve"] = "approve"
    model: Name
    version: Version
    comment: Words


class Release(Document):
    kind: Literal["release"] = "release"
    model: Name
    version: Version
    comment: Words


class WatchVersion(Document):
    """Whether somebody approved, released or rejected it meanwhile."""

    kind: Literal["watch_version"] = "watch_version"
    model: Name
    version: Version


class Roll(Document):
    """Make the rollout, if there is none of that seed yet, and start it."""

    kind: Literal["roll"] = "roll"
    model: Name
    version: Version
    group: Name
    seed: Annotated[str, Field(max_length=64)]
    stages: Literal["default", "fast"]
    watch_s: float
    comment: Words


class WatchRollout(Document):
    """The rollout, and alarms on the new version that opened since."""

    kind: Literal["watch_rollout"] = "watch_rollout"
    model: Name
    version: Version
    rollout: str | None
    since: float
    pause_s: Annotated[float, Field(gt=0)] = 5.0
    """Of no use any more; it stands in the stored cycles that watch, and they are to be read back."""


class CancelJob(Document):
    """Whatever was submitted by that key, if anything was."""

    kind: Literal["cancel_job"] = "cancel_job"
    key: str
    why: Words


class Reject(Document):
    """The version in the registry, where it is the one that the job made."""

    kind: Literal["reject"] = "reject"
    model: Name
    version: Version
    job: JobId
    why: Words


class Undo(Document):
    """The rollout: its devices go back."""

    kind: Literal["undo"] = "undo"
    rollout: str
    why: Words


Command = Annotated[
    Count | Build | Choose | Submit | WatchJob | Evaluate | WatchEvaluation | Approve
    | Release | WatchVersion | Roll | WatchRollout | CancelJob | Reject | Undo,
    Field(discriminator="kind"),
]  # fmt: skip
AnyCommand = (
    Count | Build | Choose | Submit | WatchJob | Evaluate | WatchEvaluation | Approve
    | Release | WatchVersion | Roll | WatchRollout | CancelJob | Reject | Undo
)  # fmt: skip
WATCHES: Final = (Count, WatchJob, WatchEvaluation, WatchVersion, WatchRollout)
