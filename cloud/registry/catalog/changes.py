"""What can stand in the log, by kind. Pure. A kind's members never change their meaning.

A replica applies what its home decided, so a change says all that the tables need (`project.py`).
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, JsonValue, ValidationError

from cloud.document import Actor, Document
from cloud.registry.catalog.chain import PROMOTED
from cloud.registry.documents import (
    DataSet,
    Delta,
    Entry,
    Gate,
    Hardware,
    Metrics,
    Origin,
    RuleResult,
    StoredFile,
    Text,
)
from shared.bundle.manifest import Backbone, Name, Sha256, Version
from shared.config import in_words
from shared.errors import Malformed

EvaluationId = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]


class Change(Document):
    """`kind` is the entry's."""

    kind: ClassVar[str]


class ModelSet(Change):
    kind = "model.set"
    model: Name
    owner: Actor | None  # None: as it was
    gate: Gate | None


class OfVersion(Change):
    """What changes of one version have in common."""

    model: Name
    version: Version


class Registered(OfVersion):
    kind = "version.registered"
    manifest: StoredFile
    files: tuple[StoredFile, ...]
    task: str
    card: Sha256
    backbone: Backbone | None
    origin: Origin
    lineage: dict[str, JsonValue]


class Approved(OfVersion):
    kind = "version.approved"
    comment: Text


class Rejected(OfVersion):
    kind = "version.rejected"
    comment: Text


class Released(OfVersion):
    kind = "version.released"
    number: int
    comment: Text
    trust_version: int


class Retired(OfVersion):
    kind = "version.retired"
    comment: Text
    trust_version: int | None  # None: one that newer releases made superfluous
    current: Version | None  # the model's, from then on


class Deleted(OfVersion):
    kind = "version.deleted"
    comment: Text


class EvaluationQueued(OfVersion):
    kind = "evaluation.queued"
    id: EvaluationId


class EvaluationClaimed(OfVersion):
    kind = "evaluation.claimed"
    id: EvaluationId
    evaluator: Actor
    lease_until: float


class EvaluationEnded(OfVersion):
    kind = "evaluation.ended"
    id: EvaluationId
    state: Literal["passed", "failed", "broken"]
    why: Text
    hardware: Hardware | None = None
    data_set: Annotated[str, Field(max_length=100)] | None = None
    metrics: dict[str, Metrics] = Field(default_factory=dict)
    current: Version | None = None
    current_metrics: dict[str, Metrics] = Field(default_factory=dict)
    rules: tuple[RuleResult, ...] = ()
    report_json: Sha256 | None = None
    report_html: Sha256 | None = None


class DataSetAdded(Change):
    kind = "data-set.added"
    data_set: DataSet


class DeltaAdded(Change):
    kind = "delta.added"
    delta: Delta


class TrustPublished(Change):
    kind = "trust.published"
    role: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,79}$")]
    version: Annotated[int, Field(gt=0)]
    file: StoredFile


class Promoted(Change):
    kind = PROMOTED
    epoch: Annotated[int, Field(gt=1)]
    comment: Text


KINDS: Final[Mapping[str, type[Change]]] = {
    change.kind: change
    for change in (
        ModelSet, Registered, Approved, Rejected, Released, Retired, Deleted, EvaluationQueued,
        EvaluationClaimed, EvaluationEnded, DataSetAdded, DeltaAdded, TrustPublished, Promoted,
    )
}  # fmt: skip


def change_of(entry: Entry) -> Change:
    """Raises `Malformed` for one that this program does not know."""
    try:
        return KINDS[entry.kind].model_validate(entry.change)
    except KeyError:
        raise Malformed(
            f"log entry {entry.seq} is a {entry.kind!r}, which this program does not know; update "
            "it before what writes the log"
        ) from None
    except ValidationError as error:
        raise Malformed(
            f"log entry {entry.seq}, {entry.kind}: {in_words(error)}; if a newer program wrote the "
            "log, update this one"
        ) from error
