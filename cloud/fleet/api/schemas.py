"""The documents of the API beside those of the fleet: what is asked, and lists of what is given."""

from typing import Annotated

from pydantic import Field, StringConstraints

from cloud.document import DeviceName, Document
from cloud.fleet.documents import (
    Device,
    EnrolmentToken,
    FleetEvent,
    Group,
    Labels,
    Profile,
    ProfileRef,
    SelectorText,
)
from cloud.monitoring.drift.documents import Alarm
from cloud.rollouts.documents import DeviceInRollout, ModelSubject, ProfileSubject, RolloutSpec
from cloud.rollouts.documents import RolloutView as View
from shared.bundle.manifest import Sha256, Version
from shared.fleet.profile import ProfileSettings

Comment = Annotated[str, StringConstraints(max_length=500)]
PEM_LENGTH_MAX = 16 * 1024


class Nothing(Document):
    """A body without members, or none."""


class Healthy(Document):
    live: bool
    broker: bool
    """Whether the link to the broker stands."""


class FleetState(Document):
    name: str
    devices: int
    online: int
    rollouts: int
    """Running or paused."""
    head: int
    """Number of the log's last event."""
    broker: bool
    unpublished: bool
    """Desired state is on its way to the broker."""


class Devices(Document):
    devices: tuple[Device, ...]
    next: DeviceName | None
    """`after` of the next page; None: this is the last."""


class LabelsRequest(Document):
    labels: Labels
    """These and no others."""


class CommentRequest(Document):
    comment: Comment = ""


class QuarantineRequest(Document):
    comment: Comment = ""
    until: Annotated[float, Field(ge=0, le=1e11)] | None = None
    """Unix seconds; None: until an operator ends it."""


class TokenRequest(Document):
    device: DeviceName | None = None
    """None: whoever has it names the device."""
    labels: Labels = Field(default_factory=dict)
    ttl_s: Annotated[float, Field(ge=60, le=90 * 86_400)] = 24 * 3600.0


class TokenAnswer(Document):
    token: str
    """With its secret: shown this once."""
    document: EnrolmentToken


class Tokens(Document):
    tokens: tuple[EnrolmentToken, ...]


class EnrolRequest(Document):
    token: Annotated[str, StringConstraints(min_length=8, max_length=200)]
    device: DeviceName
    csr: Annotated[str, StringConstraints(min_length=100, max_length=PEM_LENGTH_MAX)]
    """PEM."""


class RenewRequest(Document):
    csr: Annotated[str, StringConstraints(min_length=100, max_length=PEM_LENGTH_MAX)]
    """PEM. Of a new key: the present certificate of the connection says whose it is."""


class EnrolAnswer(Document):
    certificate: str
    """PEM."""
    ca: str
    """PEM: whom to believe in, and what signed the certificate."""
    renew_after: float
    """Unix seconds by the region's clock."""
    broker: str | None
    """Where the device finds its broker, if the region says so."""


class Groups(Document):
    groups: tuple[Group, ...]


class GroupRequest(Document):
    selector: SelectorText = ""
    priority: Annotated[int, Field(ge=0, le=1000)] = 100


class BaselineRequest(Document):
    version: Version
    manifest_sha256: Sha256 | None = None
    """None: the registry knows."""


class ProfileRefRequest(ProfileRef):
    """Which version the group's devices have from now on."""


class Profiles(Document):
    profiles: tuple[Profile, ...]


class ProfileRequest(Document):
    settings: ProfileSettings


class ModelSubjectRequest(ModelSubject):
    manifest_sha256: Sha256 | None = None  # type: ignore[assignment]  # the registry knows it
    """None: the registry knows."""


class ProfileSubjectRequest(ProfileSubject):
    sha256: Sha256 | None = None  # type: ignore[assignment]  # the fleet knows it
    """None: of the version as it was pushed."""


class RolloutRequest(RolloutSpec):
    subject: Annotated[ModelSubjectRequest | ProfileSubjectRequest, Field(discriminator="kind")]
    seed: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9._-]{1,64})?$")] = ""
    """Empty: of the version, its name and the group."""


class Rollouts(Document):
    rollouts: tuple[View, ...]


class RolloutDevices(Document):
    devices: tuple[DeviceInRollout, ...]
    next: DeviceName | None


class Events(Document):
    events: tuple[FleetEvent, ...]


class DriftAlarms(Document):
    alarms: tuple[Alarm, ...]
    next: str | None
    """The alarm after which the next page begins."""


class PublishAnswer(Document):
    messages: int
    """Pieces of desired state that are published again."""
