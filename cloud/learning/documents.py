"""The loop as the API gives it: where each cycle stands, what it showed, whom it waits for."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from cloud.document import Document
from cloud.feedback.documents import DataSetSpec
from cloud.training.documents import REPLAY_ROWS, FineTuning, JobId
from shared.bundle.manifest import Name, Sha256, Share, Version
from shared.plain_text import PLAIN

Words = Annotated[str, StringConstraints(max_length=1000)]
CycleId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,79}$")]


class Arrow(StrEnum):
    """The steps of a cycle, in order. Each can be set to ask a person before it is gone."""

    DATA_SET = "data_set"
    TRAIN = "train"
    EVALUATE = "evaluate"
    """Push, and have the registry measure it against its gate."""
    APPROVE = "approve"
    RELEASE = "release"
    ROLLOUT = "rollout"
    WATCH = "watch"


class TriggerKind(StrEnum):
    SAMPLES = "samples"
    DRIFT = "drift"
    ACCURACY = "accuracy"
    TIME = "time"
    PERSON = "person"


WAIT_S_MAX: Final = 1e9
"""Seconds, 31 years: whoever writes more means never."""
SAMPLES_MAX: Final = 10_000_000
"""More than a feedback store keeps: a loop that waits for them waits for ever."""


class Triggers(Document):
    """Any of them begins a cycle; None: it never does."""

    samples: Annotated[int, Field(ge=1, le=SAMPLES_MAX)] | None = None
    """New feedback samples since the last cycle."""
    drift: bool = True
    """An alarm of kind input, answer or accuracy on a group or the fleet."""
    accuracy_below: Share | None = None
    """The upper bound of the accuracy estimate's interval is below this."""
    every_s: Annotated[float, Field(ge=60, le=WAIT_S_MAX)] | None = None
    """Since the last cycle began."""
    samples_min: Annotated[int, Field(ge=1, le=SAMPLES_MAX)] = 500
    """No cycle begins with fewer samples, whatever triggers it: it waits for them."""
    pause_s: Annotated[float, Field(ge=0, le=WAIT_S_MAX)] = 3600.0
    """After a cycle that ended, whatever way; at least five minutes after one that led to no new model."""


class Teacher(Document):
    """Whether the cloud's labels may teach."""

    labelled_min: Annotated[int, Field(ge=0, le=SAMPLES_MAX)] = 50
    """Samples of the data set's holdout that a person must have labelled before training; 0 asks
    nobody, and then nobody knows what the cloud's labels are worth."""
    margin: Share = 0.0
    """On those, the cloud must be right more often than the edge by at least this."""


class Acceptance(Document):
    """What a new model must show beside the registry's own gate."""

    gain_min: Share = 0.01
    """More right answers than the current model on the holdout's labelled samples."""
    clean_loss_max: Share = 0.007
    """Fewer right answers at most on the base data's own calibration split, as its job measured."""
    confidence: Share = 0.9
    """Of a paired one-sided test that the gain is above 0 (McNemar, exact)."""


DEVICES_MAX: Final = 1_000
"""That a loop may name: its settings stand in each record of its cycles, and in every list of loops."""


class LoopSettings(Document):
    """One model's loop. Immutable; a change is another revision."""

    model: Name
    """The edge model."""
    teacher: Name
    """The cloud model, whose released version labels. Only samples that it answered are taken."""
    enabled: bool = True
    group: Name = "all"
    """Of the fleet: where the rollout goes."""
    triggers: Triggers = Triggers()
    data: DataSetSpec | None = None
    """None: the model's samples since the last cycle, with a half-life of a week."""
    teacher_gate: Teacher = Teacher()
    fitting: FineTuning = FineTuning()
    """As fine-tuning was measured with (`FineTune`)."""
    base: Name = "fashion-mnist"
    replay_rows: Annotated[int, Field(ge=0, le=1_000_000)] = REPLAY_ROWS
    cpus: Annotated[int, Field(ge=1, le=256)] = 1
    acceptance: Acceptance = Acceptance()
    asks: frozenset[Arrow] = frozenset({Arrow.APPROVE, Arrow.RELEASE})
    """Before these a person says go. RELEASE without a release key always waits for the release."""
    rollout_stages: Literal["default", "fast"] = "default"
    watch_s: Annotated[float, Field(ge=0, le=WAIT_S_MAX)] = 86_400.0
    """How long alarms on the new version still end the cycle as failed."""
    refit_every_s: Annotated[float, Field(ge=60, le=WAIT_S_MAX)] | None = None
    """Fit the escalation threshold anew on fresh audits, without a new model; None: never."""

    @model_validator(mode="after")
    def _makes_sense(self) -> "LoopSettings":
        if self.teacher == self.model:
            raise ValueError(f"teacher: {self.model} cannot teach itself; name the cloud model")
        if self.data is not None and self.data.model != self.model:
            raise ValueError(f"data.model: a loop of {self.model} learns from its samples alone")
        if self.data is not None and self.data.cloud_model not in {None, self.teacher}:
            raise ValueError(f"data.cloud_model: {self.teacher} teaches; name it, or none")
        if self.data is not None and self.data.holdout_share == 0:
            raise ValueError("data.holdout_share: the gates need some; give 0.1")
        if self.data is not None and (count := len(self.data.devices)) > DEVICES_MAX:
            raise ValueError(
                f"data.devices: a loop may name {DEVICES_MAX}, not {count}; name their sites"
            )
        return self


class Phase(StrEnum):
    COLLECTING = "collecting"
    """Triggered; too few samples, or too few that a person labelled, as `waits_for` says."""
    DATA_SET = "data_set"
    TRAINING = "training"
    EVALUATING = "evaluating"
    APPROVING = "approving"
    RELEASING = "releasing"
    ROLLING_OUT = "rolling_out"
    WATCHING = "watching"
    DONE = "done"
    REFUSED = "refused"
    """A gate said no; the reason is in `why`."""
    FAILED = "failed"
    STOPPED = "stopped"


ENDS = frozenset({Phase.DONE, Phase.REFUSED, Phase.FAILED, Phase.STOPPED})


class Finding(Document):
    """One thing a gate looked at."""

    name: Annotated[str, StringConstraints(max_length=60)]
    holds: bool
    value: float | None = None
    bound: float | None = None
    words: Words


class Cycle(Document):
    """From a trigger to an end."""

    id: CycleId
    model: Name
    trigger: TriggerKind
    trigger_words: Words
    phase: Phase
    begun_at: float
    since: float
    """Of the phase."""
    ended_at: float | None = None
    asks: Arrow | None = None
    """Waits for a person to say go before this."""
    waits_for: Words = ""
    """What else it waits for, in words."""
    why: Words = ""
    data_set: Sha256 | None = None
    job: JobId | None = None
    version: Version | None = None
    rollout: str | None = None
    findings: Annotated[tuple[Finding, ...], Field(max_length=64)] = ()
    revision: int = 0


class Loop(Document):
    settings: LoopSettings
    revision: int
    cycle: Cycle | None = None
    """The one that runs."""
    unreadable: CycleId | None = None
    """The one that runs, where another version of the process wrote it and this one cannot read it. It
    goes on once that version is started again; deleting the loop gives it up."""
    last: Cycle | None = None
    """The one that ended last, where it can be read."""
    next_at: float | None = None
    """Before then nothing triggers."""


class Decision(Document):
    """A person's word on a cycle."""

    verb: Literal["go", "stop"]
    comment: Annotated[str, StringConstraints(max_length=1000, pattern=PLAIN)] = ""


class Refit(Document):
    """An escalation threshold fitted on fresh audits and escalations, without a new model."""

    model: Name
    version: Version
    confidence_min: Annotated[float, Field(ge=0, le=2)]
    before: float
    epsilon: Share
    delta: Share
    samples: int
    """Audits and escalations it stands on, weighted by their shares."""
    escalated_share: Share
    words: Words

    @model_validator(mode="after")
    def _means_something(self) -> "Refit":
        if self.samples < 1:
            raise ValueError("samples: a threshold from nothing")
        return self


class FeatureCheck(Document):
    """The same samples through training's and serving's preprocessing."""

    model: Name
    version: Version
    at: float
    samples: int
    inputs_differ: int
    """Samples whose decoded tensors are not the same bytes."""
    answers_differ: int
    """Samples with another winner."""
    largest: float
    """Largest difference of a probability."""
    agrees: bool
    words: Words
