"""The documents of the API beside those of the catalog: what is asked, and lists of what is given."""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, ConfigDict, FailFast, Field

from cloud.document import Actor, Document
from cloud.registry.documents import (
    Bytes,
    DataSet,
    Delta,
    Entry,
    Evaluation,
    Gate,
    Head,
    Model,
    ModelVersion,
    Origin,
    ReplicaState,
    Runner,
    Text,
)
from cloud.registry.replication.region_status import RegionStatus
from shared.bundle.manifest import Name, Sha256, Version

HASHES_MAX = 10_000


class Nothing(Document):
    """A body without members, or none."""


class RegistryState(Document):
    name: str
    role: Literal["home", "replica", "fenced"]
    home: str | None  # whom to ask for changes, where it is not this one
    head: Head
    behind: int | None  # entries that this replica knows of and does not have
    writable: bool
    why_read_only: str | None
    region: RegionStatus


class Models(Document):
    models: tuple[Model, ...]


class Versions(Document):
    versions: tuple[ModelVersion, ...]


class Evaluations(Document):
    evaluations: tuple[Evaluation, ...]


class DataSets(Document):
    data_sets: tuple[DataSet, ...]


class Entries(Document):
    entries: tuple[Entry, ...]


class Deltas(Document):
    deltas: tuple[Delta, ...]


class Runners(Document):
    runners: tuple[Runner, ...]


class Replicas(Document):
    replicas: tuple[ReplicaState, ...]


class Checklist(Document):
    """Empty: it may be released."""

    missing: tuple[str, ...]


class ModelRequest(Document):
    """What is left out stays as it is."""

    owner: Actor | None = None
    gate: Gate | None = None


class RegisterRequest(Document):
    """The manifest and every file that it lists are in the artifact store."""

    manifest_sha256: Sha256
    origin: Origin = Origin()


class DataSetRequest(Document):
    """The file is in the artifact store; `bytes` and `rows` are checked where they are given."""

    sha256: Sha256
    bytes: Bytes | None = None
    rows: Annotated[int, Field(gt=0, le=10**9)] | None = None


class CommentRequest(Document):
    comment: Text = ""


class ReleaseRequest(Document):
    """`metadata`: the model's role, signed; None where this registry has a release key of its own."""

    comment: Text = ""
    metadata: dict[str, Any] | None = None


class MissingRequest(Document):
    sha256: Annotated[tuple[Sha256, ...], Field(max_length=HASHES_MAX), FailFast()]


class Missing(Document):
    missing: tuple[Sha256, ...]


class RunnerRequest(Document):
    model: Name
    version: Version
    variant: Annotated[str, Field(max_length=40)]
    state: Annotated[str, Field(max_length=40)] = "active"


class TrustRequest(Document):
    """Signed metadata of a role, as TUF has it."""

    metadata: dict[str, Any]


class TrustWaiting(Document):
    """What is not published yet, and why; `signed` are ids of keys, `missing` counts signatures."""

    model_config = ConfigDict(from_attributes=True)

    role: str
    version: int
    signed: tuple[str, ...]
    missing: int
    why: str


class TrustAnswer(Document):
    """`published`: the new versions, by role; none: it waits for more signatures."""

    published: dict[str, int]
    waiting: tuple[TrustWaiting, ...]


class TrustRole(Document):
    model_config = ConfigDict(from_attributes=True)

    role: str
    version: int
    expires: AwareDatetime
    keys: tuple[str, ...]  # ids of those that may sign it
    threshold: int


class TrustState(Document):
    """`epoch` 0: nobody has handed in a root yet. `is_online`: this registry can sign snapshots."""

    model_config = ConfigDict(from_attributes=True)

    epoch: int
    roles: tuple[TrustRole, ...]
    staged: tuple[TrustWaiting, ...]
    is_online: bool


class CollectRequest(Document):
    dry_run: bool = True


class CollectAnswer(Document):
    """What was, or with `dry_run` would be, removed; the counts are of what stays."""

    artifacts: int
    uploads: int
    bytes: int
    kept: int
    young: int
    busy: int
    dry_run: bool


class Healthy(Document):
    live: bool
    role: Literal["home", "replica", "fenced"]
    seq: int
