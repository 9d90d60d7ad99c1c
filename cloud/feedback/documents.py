"""What the feedback store knows, as its API gives it. Frozen, bounded, no I/O.

Times are Unix seconds by the region's clock unless they say "captured", which is the device's.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from cloud.document import Actor, DeviceName, Document
from shared.bundle.manifest import Name, Sha256, Share, Version
from shared.plain_text import PLAIN

SampleName = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
]
SiteName = Annotated[str, StringConstraints(max_length=63, pattern=PLAIN)]
"""The device's label `site` in the fleet; empty: it has none."""
Words = Annotated[str, StringConstraints(max_length=500)]
Comment = Annotated[str, StringConstraints(max_length=500, pattern=PLAIN)]
"""What somebody sends."""
Moment = Annotated[float, Field(ge=0, le=1e11)]
Reason = Literal["escalated", "audit", "novel"]


class Source(StrEnum):
    """Of a label, the most trusted first."""

    PERSON = "person"
    CLOUD = "cloud"
    EDGE = "edge"


class Label(Document):
    """What somebody says a sample is. A person's newest word replaces his own earlier one."""

    label: Annotated[int, Field(ge=0, le=65_535)]
    source: Source
    by: Actor
    """A key's name; `model version` of the cloud's or the edge's model."""
    at: Moment
    comment: Words = ""


class FeedbackSample(Document):
    """One sample that came back, with what is known of it; its tensor is fetched apart."""

    id: SampleName
    device: DeviceName
    site: SiteName = ""
    reason: Reason
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """With which probability a sample like it was sent: 1 for what escalates, an audit's share."""
    captured_at: float
    received_at: Moment
    edge_model: str
    edge_version: str
    edge_label: int
    edge_confidence: Share
    cloud_model: str
    cloud_version: str
    cloud_label: int
    cloud_confidence: Share
    labels: tuple[Label, ...] = ()
    """People's, the newest first."""
    label: int
    """The one that counts: of the highest rank."""
    label_source: Source
    contradicted: bool = False
    """People's labels of it differ, so it is in no data set until they agree."""
    dtype: str
    shape: tuple[int, ...]
    bytes: Annotated[int, Field(ge=0)]


class SampleQuery(Document):
    """Every condition must hold; none: every sample. Listed newest first."""

    model: Name | None = None
    """The edge model."""
    version: Version | None = None
    device: DeviceName | None = None
    site: SiteName | None = None
    reason: Reason | None = None
    label: Annotated[int, Field(ge=0, le=65_535)] | None = None
    source: Source | None = None
    since: Moment | None = None
    """Received from then on."""
    until: Moment | None = None
    """Received before."""
    unsure: Share | None = None
    """The cloud's own confidence is below this: what a person should look at."""
    disputed: bool = False
    """Edge and cloud differ, or people do."""
    contradicted: bool = False
    """People differ: it is in no data set until they agree."""
    unlabelled: bool = False
    """No person has said what it is."""
    holdout: Annotated[float, Field(gt=0, le=0.5)] | None = None
    """It is one of those that a data set of this `holdout_share` keeps from training."""
    cloud_model: Name | None = None
    """That answered."""


class DataSetSpec(Document):
    """What to take from the feedback store. The same store and spec give the same data set."""

    model: Name
    """The edge model whose samples are taken."""
    since: Moment | None = None
    until: Moment | None = None
    versions: Annotated[tuple[Version, ...], Field(max_length=64)] = ()
    """Of the edge model; none named: all."""
    devices: Annotated[tuple[DeviceName, ...], Field(max_length=10_000)] = ()
    sites: Annotated[tuple[SiteName, ...], Field(max_length=1_000)] = ()
    reasons: Annotated[tuple[Reason, ...], Field(max_length=3)] = ()
    source_min: Source = Source.CLOUD
    """Labels of lower rank are not used."""
    cloud_model: Name | None = None
    """That answered, and whose probabilities teach; None: any."""
    cloud_confidence_min: Share = 0.0
    """Cloud labels below it are left out; a person's count whatever the cloud thought."""
    rows_max: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    half_life_s: Annotated[float, Field(ge=0.001)] | None = None
    """A sample twice as old as another by this counts half as much when `rows_max` binds; None: age
    does not matter."""
    stratify: Annotated[tuple[Literal["class", "site"], ...], Field(max_length=2)] = (
        "class",
        "site",
    )
    """When `rows_max` binds, strata give evenly, and what small ones lack goes to the others."""
    device_class_share_max: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Of the rows of one class, at most this share from one device where three or more devices have
    such rows (two and a half even parts, where they are so few that this is more): one that is
    broken, or hostile, cannot teach a class by itself. What is over it is dropped, and the device
    named."""
    holdout_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Kept from training, to measure on: chosen by a hash of the sample's id, so that a sample never
    changes sides from one data set to the next."""
    seed: Annotated[int, Field(ge=0, le=2**32)] = 0

    @model_validator(mode="after")
    def _in_order(self) -> "DataSetSpec":
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("since is not before until: no sample is between them")
        return self


class Flooding(Document):
    """A device whose rows of one class were capped."""

    device: DeviceName
    label: int
    rows: int
    dropped: int


class DataSetVersion(Document):
    """Immutable; `sha256` is of the file's arrays, so equal content has one name."""

    name: Name
    number: Annotated[int, Field(ge=1)]
    sha256: Sha256
    bytes: int
    spec: DataSetSpec
    rows: int
    holdout_rows: int
    classes: int
    per_class: tuple[int, ...]
    """Rows by label, from 0; holdout included."""
    per_site: Annotated[dict[str, int], Field(max_length=1_000)] = Field(default_factory=dict)
    devices: int
    per_source: dict[Source, int] = Field(default_factory=dict)
    excluded: Annotated[dict[str, int], Field(max_length=32)] = Field(default_factory=dict)
    """Samples that matched and were left out, by reason: contradicted, low_rank, unreadable, ..."""
    flooding: Annotated[tuple[Flooding, ...], Field(max_length=100)] = ()
    made_by: Actor
    made_at: Moment
    """Data sets that are made of the same rows share a file; a version says who made it and when."""


class ListedDataSet(DataSetVersion):
    """As it stands among others: without the names of its spec's devices, of which each may have 10,000."""

    devices_named: int = 0
    """In the spec, whose `devices` is empty here; 0: it takes those of all."""

    @classmethod
    def of(cls, made: DataSetVersion) -> "ListedDataSet":
        spec = made.spec.model_copy(update={"devices": ()})
        members = {name: getattr(made, name) for name in DataSetVersion.model_fields}
        return cls(**members | {"spec": spec}, devices_named=len(made.spec.devices))


class DataSetPlan(Document):
    """What a spec takes at present, before any sample is read."""

    rows: int
    holdout_rows: int
    per_class: tuple[int, ...]
    """Rows by label, from 0; holdout included."""
    per_site: dict[str, int] = Field(default_factory=dict)
    devices: int
    per_source: dict[Source, int] = Field(default_factory=dict)
    excluded: dict[str, int] = Field(default_factory=dict)
    flooding: tuple[Flooding, ...] = ()
    bytes: int
    """Of the samples as they are stored; the file's are decoded."""
    refused: str = ""
    """Why no data set would be made of it, in words."""


class Deletion(Document):
    """What of the store is to go: by device, by time, or both. The log keeps that it went, and how
    much; data sets that were made of it before are named.
    """

    device: DeviceName | None = None
    since: Moment | None = None
    until: Moment | None = None
    comment: Comment

    @model_validator(mode="after")
    def _says_what(self) -> "Deletion":
        if self.device is None and self.until is None:
            raise ValueError("name a device, or until when; deleting everything takes both words")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("since is not before until: no sample is between them")
        return self


class Deleted(Document):
    rows: int
    bytes: int
    data_sets: tuple[str, ...] = ()
    """Which hold samples that are gone from the store; they are kept until they are deleted."""


class FeedbackState(Document):
    """The store in figures."""

    rows: int
    bytes: int
    oldest_at: Moment | None = None
    newest_at: Moment | None = None
    per_reason: dict[Reason, int] = Field(default_factory=dict)
    labelled: int = 0
    contradicted: int = 0
    data_sets: int = 0
