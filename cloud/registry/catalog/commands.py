"""What can be asked of the catalog. Each is decided by `decide.py` and becomes changes in the log.

`revision`, where it is not None: what the asker last saw; `Conflict` when it has changed since.
0 of a model: it must not be there yet.
"""

from dataclasses import dataclass

from cloud.registry.documents import (
    DataSet,
    Delta,
    Evaluation,
    Gate,
    Hardware,
    Origin,
    StoredFile,
)
from shared.bundle.manifest import Manifest


@dataclass(frozen=True, slots=True)
class SetModel:
    """Make a model, or change its gate and owner. Trainer or approver (an existing gate: approver)."""

    name: str
    owner: str | None
    gate: Gate | None
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Register:
    """A version whose files are all in the artifact store. Queues its evaluation. Trainer."""

    manifest: Manifest
    manifest_file: StoredFile
    origin: Origin
    evaluation_id: str  # of the evaluation that this queues


@dataclass(frozen=True, slots=True)
class AddDataSet:
    """Trainer. `version` is the next of its name."""

    data_set: DataSet


@dataclass(frozen=True, slots=True)
class QueueEvaluation:
    """Of a version that is trained, evaluating, candidate or released. Trainer or approver."""

    model: str
    version: str
    evaluation_id: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class ClaimEvaluation:
    """The oldest queued one, or one whose lease is over, for `lease_s`. The evaluator's own."""

    evaluator: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class RenewEvaluation:
    """`lease_s` more, from now, for who claimed it and works on. The evaluator's own.

    Not in the log: it says nothing that outlives the claim.
    """

    evaluation_id: str
    evaluator: str
    attempts: int  # as the claim's evaluation says
    lease_s: float


@dataclass(frozen=True, slots=True)
class EndEvaluation:
    """What came of it: moves an `evaluating` version to candidate or rejected. The evaluator's."""

    evaluation: Evaluation
    hardware: Hardware | None


@dataclass(frozen=True, slots=True)
class Approve:
    """A candidate, with a comment. Approver."""

    model: str
    version: str
    comment: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """Veto whatever is not released, with a comment. Approver."""

    model: str
    version: str
    comment: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """A candidate that lacks nothing (`checklist.py`), named in signed metadata. Operator.

    The release before it stays `released` until `KEPT` newer ones are there; `current` moves.
    """

    model: str
    version: str
    comment: str
    trust_version: int
    revision: int | None = None
    number: int | None = None  # as the signed metadata says; it must be the model's next


@dataclass(frozen=True, slots=True)
class Retire:
    """A released version. `current` falls back to the newest release left. Operator."""

    model: str
    version: str
    comment: str
    trust_version: int
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Forget an ended version's files; its history stays. Refused while anything runs it, and for
    the `KEPT` releases before the current one. Operator.
    """

    model: str
    version: str
    comment: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class AddDelta:
    """The registry's own."""

    delta: Delta


@dataclass(frozen=True, slots=True)
class PublishTrust:
    """A signed metadata file, already verified, as artifact `file`. Operator, or the registry."""

    role: str  # "root", "targets", "snapshot", "timestamp", or a model's role
    version: int
    file: StoredFile


@dataclass(frozen=True, slots=True)
class Promote:
    """The first entry of a new epoch: this registry is home from here on. Operator."""

    epoch: int
    comment: str


Command = (
    SetModel | Register | AddDataSet | QueueEvaluation | ClaimEvaluation | RenewEvaluation
    | EndEvaluation | Approve | Reject | Release | Retire | Delete | AddDelta | PublishTrust | Promote
)  # fmt: skip
