"""Training jobs, their recipes and their runs, as the API gives them. Frozen, bounded, no I/O, no torch.

Times are Unix seconds by the region's clock.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints, model_validator

from cloud.document import Actor, Document
from shared.bundle.manifest import VERSION, Name, Sha256, Share, Version
from shared.plain_text import PLAIN

TeamName = Name
JobId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,79}$")]
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.]{0,63}$")]
BundleRef = Annotated[str, StringConstraints(pattern=rf"^[a-z0-9][a-z0-9-]{{0,63}}@{VERSION}$")]
"""`fashion-edge@1.0.0`: a version in the registry, or in the worker's `bundles` folders."""
BaseName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
"""Labelled base data that a worker has: `fashion-mnist`, or one of its `base_data` folder."""
NetworkName = Literal["edge-net", "cloud-net"]


class Fitting(Document):
    """How weights are fitted, whatever they learn from."""

    epochs: Annotated[int, Field(ge=1, le=1000)] = 8
    batch: Annotated[int, Field(ge=2, le=4096)] = 128
    optimizer: Literal["sgd", "adamw"] = "sgd"
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.03
    """At its highest, after a fifth of all steps. AdamW takes about a thirtieth of what SGD does."""
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 1e-4
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    patience: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Epochs without a better loss on a tenth of the rows, kept apart for that, after which it ends
    with the best epoch's weights; None: all `epochs`, on all rows."""
    augment: Share = 0.0
    """Share of images given a random shift (`cloud/training/augment.py`)."""
    bf16: bool = True
    """Activations in bfloat16, weights in float32 (Micikevicius et al. 2018, arXiv:1710.03740), where the
    CPU computes in it: a fifth less time, and less memory traffic for who serves beside it."""


class _Recipe(Document):
    version: Version
    """Of the bundle that it makes."""
    fitting: Fitting = Fitting()


class Supervised(_Recipe):
    """Weights from nothing, on labels."""

    kind: Literal["supervised"] = "supervised"
    name: Name
    network: NetworkName
    base: BaseName


class Distill(_Recipe):
    """Weights from nothing, on a teacher's soft labels of the base data (Hinton et al. 2015)."""

    kind: Literal["distill"] = "distill"
    name: Name
    network: NetworkName
    base: BaseName
    teacher: BundleRef
    temperature: Annotated[float, Field(gt=0, le=100)] = 3.0
    soft_share: Share = 0.7


class FineTuning(Fitting):
    """Its defaults are those that ADR 19 measured."""

    epochs: Annotated[int, Field(ge=1, le=1000)] = 12
    batch: Annotated[int, Field(ge=2, le=4096)] = 64
    optimizer: Literal["sgd", "adamw"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.004
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.01


REPLAY_ROWS: Final = 10_000


class FineTune(_Recipe):
    """A bundle's own weights, on feedback and a replay of base data, by soft and hard labels."""

    kind: Literal["finetune"] = "finetune"
    student: BundleRef
    teacher: BundleRef | None = None
    """The cloud model that thresholds are set against; None: it is taken for right on all base data."""
    base: BaseName
    fitting: FineTuning = FineTuning()  # type: ignore[mutable-override]  # frozen
    field_rows: Annotated[int, Field(ge=0, le=1_000_000)] = 500
    """Of the feedback in each epoch, others each time, where there are more."""
    replay_rows: Annotated[int, Field(ge=0, le=1_000_000)] = REPLAY_ROWS
    """Of base data beside it, others each time, with the student's own soft labels, so that what was
    known is not forgotten."""
    imitate: Share = 0.18
    """Share of the replay's images at most that are given what seems to have happened to the field's:
    the kinds of `cloud/training/augment.py` that the feedback looks like, and how strong they are.
    Less of it where much of the feedback looks ordinary, down to half where the shift is heavy."""
    temperature: Annotated[float, Field(gt=0, le=100)] = 3.0
    soft_share: Share = 0.7


class Quantize(_Recipe):
    """An fp32 graph to int8: QDQ by ONNX Runtime, or NNCF for OpenVINO."""

    kind: Literal["quantize"] = "quantize"
    source: BundleRef
    base: BaseName
    method: Literal["onnxruntime", "nncf"] = "onnxruntime"
    samples: Annotated[int, Field(ge=16, le=10_000)] = 512
    teacher: BundleRef | None = None
    """The cloud model that thresholds are set against; None: it is taken for right on everything."""


class Prune(_Recipe):
    """Whole channels go, those with the least norm, and the rest is fitted again."""

    kind: Literal["prune"] = "prune"
    source: BundleRef
    base: BaseName
    teacher: BundleRef | None = None
    """As for `quantize`; and its soft labels of the base data are what the rest is fitted to."""
    channels_share: Annotated[float, Field(gt=0, le=0.9)] = 0.25


class Half(_Recipe):
    """An fp32 graph to fp16."""

    kind: Literal["fp16"] = "fp16"
    source: BundleRef
    base: BaseName
    teacher: BundleRef | None = None
    """As for `quantize`."""


Recipe = Annotated[
    Supervised | Distill | FineTune | Quantize | Prune | Half, Field(discriminator="kind")
]


class JobSpec(Document):
    """What somebody asks for."""

    team: TeamName = "default"
    priority: Annotated[int, Field(ge=0, le=9)] = 5
    """9 goes first; a job may stop a running one of lower priority for its place."""
    recipe: Recipe
    data_set: Sha256 | None = None
    """A data set of the feedback store; `finetune` needs one."""
    cpus: Annotated[int, Field(ge=1, le=256)] = 1
    """Threads it may use, all of its processes together; a worker has so many to give."""
    processes: Annotated[int, Field(ge=1, le=64)] = 1
    """With torchrun, on one machine; with `engine` "ray", over the cluster."""
    engine: Literal["local", "ray"] = "local"
    max_duration_s: Annotated[float, Field(gt=0, le=30 * 86_400)] = 3600.0
    """Of work, interruptions not counted; a job that takes longer fails."""
    attempts_max: Annotated[int, Field(ge=1, le=10)] = 3
    """Times that it is begun: a worker that vanishes, or a crash, costs one; preemption none."""
    push: bool = False
    """Push the bundle to the registry when it is made, as the worker's key."""
    comment: Annotated[str, StringConstraints(max_length=500, pattern=PLAIN)] = ""

    @model_validator(mode="after")
    def _fits(self) -> "JobSpec":
        if isinstance(self.recipe, FineTune) and self.data_set is None:
            raise ValueError("data_set: finetune needs one; build it from the feedback store")
        if self.processes > self.cpus:
            raise ValueError(
                f"processes {self.processes} is over cpus {self.cpus}: one each at least"
            )
        return self


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    """To be cancelled, or to give its place: it writes a checkpoint first."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Job(Document):
    id: JobId
    spec: JobSpec
    state: JobState
    submitted_by: Actor
    submitted_at: float
    started_at: float | None = None
    """Of the first attempt."""
    ended_at: float | None = None
    worker: str = ""
    attempts: int = 0
    preemptions: int = 0
    worked_s: float = 0.0
    progress: Share = 0.0
    run: JobId | None = None
    why: Annotated[str, StringConstraints(max_length=1000)] = ""
    """Why it failed, waits or was stopped, in words."""
    bundle: BundleRef | None = None
    bundle_sha256: Sha256 | None = None
    """Of the `.hyb` archive, among the run's artifacts."""
    place: int | None = None
    """In the queue, from 1; None: it does not wait."""


class Quota(Document):
    """What one team may have at once, and its part when others wait, too."""

    team: TeamName
    cpus_max: Annotated[int, Field(ge=0, le=10_000)]
    queued_max: Annotated[int, Field(ge=0, le=10_000)] = 100
    weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0


class WorkerState(Document):
    name: str
    cpus: int
    cpus_free: int
    seen_at: float
    jobs: tuple[JobId, ...] = ()
    kept_apart_by: str = ""
    """What holds its jobs off other work: "cgroup cpu.max 100000, SCHED_IDLE", in words."""


class Artifact(Document):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    sha256: Sha256
    bytes: int


class Run(Document):
    """One job's record, over all of its attempts."""

    id: JobId
    """The job's."""
    parameters: dict[str, JsonValue]
    data_set: Sha256 | None = None
    code_version: str
    machine: str
    """CPU, cores, torch version: what the figures depend on."""
    started_at: float
    ended_at: float | None = None
    figures: dict[MetricName, float] = Field(default_factory=dict)
    """The last value of each metric, and what was measured at the end."""
    artifacts: tuple[Artifact, ...] = ()


class Point(Document):
    """One metric at one step."""

    metric: MetricName
    step: Annotated[int, Field(ge=0)]
    value: float
    at: float


class LogLine(Document):
    seq: int
    at: float
    text: Annotated[str, StringConstraints(max_length=2000)]


ACTIVE = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.STOPPING})
