"""What the registry knows, as its API gives it and its log carries it. Frozen, bounded, no I/O.

Sizes are in bytes, times in Unix seconds by the home's clock, hashes SHA-256 in hex.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from cloud.document import Actor, Document
from shared.bundle.manifest import Backbone, Name, Sha256, Version

Text = Annotated[str, StringConstraints(max_length=2000)]
EngineName = Literal["onnxruntime", "openvino", "tensorrt"]
Bytes = Annotated[int, Field(ge=0, le=2**40)]


class State(StrEnum):
    """Of a version. `rejected` and `retired` are ends."""

    TRAINED = "trained"
    EVALUATING = "evaluating"
    CANDIDATE = "candidate"
    RELEASED = "released"
    RETIRED = "retired"
    REJECTED = "rejected"


class Gate(Document):
    """What a version must show before it may be released, declared before it is trained."""

    rules: Annotated[str, StringConstraints(max_length=4000)] = "accuracy >= 0"
    """As `f1 >= current + 0.005 and p95_ms <= 20` (`cloud/registry/evaluation/rules.py`)."""
    data_set: Name | None = None
    """The evaluation data; its newest version. None: the bundle's golden samples alone."""
    engines: Annotated[tuple[EngineName, ...], Field(min_length=1, max_length=3)] = ("onnxruntime",)
    """Each must run the model and hold the rules. None would be a gate that nothing can miss."""
    approval: Literal["rule", "person"] = "person"
    """person: a candidate needs an approver's word before it is released."""


class Model(Document):
    name: Name
    owner: Actor
    gate: Gate
    current: Version | None = None  # the released version that devices take
    number: int = 0  # of its newest release; the next one's is one more
    gate_revision: int = 0  # of the gate's last change in the log
    created_at: float
    revision: int  # of its last change in the log


class Dependency(Document):
    """Something that the version needs where it runs, or was made with."""

    name: Annotated[
        str, StringConstraints(min_length=1, max_length=100)
    ]  # onnxruntime, cuda, torch
    version: Annotated[str, StringConstraints(max_length=100)]  # or a specifier (PEP 440)


class Origin(Document):
    """Where a version comes from, beside what its manifest's lineage says."""

    parent: Version | None = None  # of the same model; registered before
    training_job: Annotated[str, StringConstraints(max_length=200)] | None = None
    dependencies: Annotated[tuple[Dependency, ...], Field(max_length=500)] = ()


class StoredFile(Document):
    """One file of a bundle, as its manifest lists it, in the artifact store by its hash."""

    path: Annotated[str, StringConstraints(max_length=200)]
    sha256: Sha256
    bytes: Bytes


class LaunchRecord(Document):
    """One release."""

    number: int  # rises with every release of this model
    at: float
    by: Actor
    comment: Text
    trust_version: int  # of the signed metadata that first named it


class Approval(Document):
    at: float
    by: Actor
    comment: Text
    seq: int = 0  # of its entry in the log; one from before the gate's last change counts no more


class ModelVersion(Document):
    model: Name
    version: Version
    state: State
    why: Text  # it is in this state
    manifest: StoredFile
    files: tuple[StoredFile, ...]
    task: str
    card: str  # sha256 of the model card
    origin: Origin
    lineage: dict[
        str, JsonValue
    ]  # the manifest's: data set and its hash, code, hyperparameters, metrics
    pushed_by: Actor
    pushed_at: float
    approval: Approval | None = None
    launches: tuple[LaunchRecord, ...] = ()
    evaluation: str | None = None  # id of the newest that ended
    backbone: Backbone | None = None  # the manifest's: the version whose output a head takes
    deleted: bool = False  # its files may be gone; the version stays taken
    revision: int  # of its last change in the log; compare-and-set is by it


class DataSet(Document):
    """Labelled evaluation data: .npz with `inputs` [N, ...], `labels` int64 [N], maybe `slices`
    (text [N]: site, light, whatever worst-slice figures go by). Immutable.
    """

    name: Name
    version: Annotated[int, Field(gt=0, le=10**6)]
    file: StoredFile
    rows: Annotated[int, Field(gt=0)]
    pushed_by: Actor
    pushed_at: float


class Hardware(Document):
    """Where figures were measured. Figures from another `fingerprint` do not count."""

    fingerprint: Annotated[str, StringConstraints(max_length=64)]
    cpu: Annotated[str, StringConstraints(max_length=200)]
    cores: int
    memory_bytes: Bytes
    system: Annotated[str, StringConstraints(max_length=200)]
    engines: dict[str, str]  # package -> version


Metrics = dict[str, float]
"""accuracy, precision, recall, f1, auc, ece, worst_class, worst_slice, p50_ms, p95_ms, p99_ms,
memory_mb, throughput_per_s, noise, blur, brightness, boundary, fgsm, parity."""


class RuleResult(Document):
    rule: Text  # one comparison, as written
    variant: str
    holds: bool
    why: Text  # with the figures


class Evaluation(Document):
    """One measurement of one version on one machine."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{36}$")]  # UUIDv7
    model: Name
    version: Version
    state: Literal["queued", "running", "passed", "failed", "broken"]
    queued_at: float
    queued_by: Actor
    started_at: float | None = None
    ended_at: float | None = None
    evaluator: str | None = None
    attempts: int = 0  # claims of it; of evaluators of one name the later one's is higher
    lease_until: float | None = None  # then another may claim it
    started_seq: int = 0  # of its last claim in the log: a gate changed after it was not measured
    hardware: Hardware | None = None
    data_set: str | None = None  # "name 3"
    metrics: dict[str, Metrics] = Field(default_factory=dict)  # by variant key
    current: Version | None = None  # the release it was held against, measured in the same run
    current_metrics: dict[str, Metrics] = Field(default_factory=dict)
    rules: tuple[RuleResult, ...] = ()
    why: Text = ""
    report_json: Sha256 | None = None  # artifacts
    report_html: Sha256 | None = None


class Delta(Document):
    """A way to `to_sha256` for who has `from_sha256`; its own bytes are the artifact `sha256`."""

    from_sha256: Sha256
    to_sha256: Sha256
    sha256: Sha256
    bytes: Bytes


class Runner(Document):
    """A device or a worker, and what it says that it runs."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    model: Name
    version: Version
    variant: Annotated[str, StringConstraints(max_length=40)]
    state: Annotated[str, StringConstraints(max_length=40)] = "active"
    seen_at: float


class Head(Document):
    """The end of a log."""

    epoch: int  # rises with every promotion
    seq: int
    sha256: Sha256


class Entry(Document):
    """One line of the log: `sha256` is of all else in it, in canonical JSON; `previous` chains."""

    seq: Annotated[int, Field(gt=0)]
    epoch: Annotated[int, Field(gt=0)]
    at: float
    actor: Actor
    kind: Annotated[str, StringConstraints(max_length=40)]
    change: dict[str, JsonValue]
    previous: Sha256
    sha256: Sha256


class ReplicaState(Document):
    """What a replica said of itself last."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    url: Annotated[str, StringConstraints(max_length=300)]
    epoch: int
    seq: int
    artifacts_missing: int
    running: tuple[Runner, ...] = Field(default=(), max_length=10_000)
    seen_at: float
