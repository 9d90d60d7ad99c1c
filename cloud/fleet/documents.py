"""What the fleet knows, as its API gives it. Frozen, bounded, no I/O.

Sizes are in bytes, times in Unix seconds by the region's clock.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from cloud.document import Actor, DeviceName, Document
from shared.bundle.manifest import Name, Sha256, Version
from shared.fleet.desired import DesiredModel, DesiredProfile
from shared.fleet.document import RolloutId
from shared.fleet.profile import ProfileSettings
from shared.fleet.reported import ReportedInventory, ReportedModel, ReportedProfile

LabelName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9._-]{0,62}$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Labels = Annotated[dict[LabelName, LabelValue], Field(max_length=32)]
SelectorText = Annotated[str, StringConstraints(max_length=500)]
GroupName = Name
EVERYBODY = "all"
"""The group of every device that no other group takes."""


class Certificate(Document):
    serial: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,40}$")]
    not_before: float
    not_after: float
    issued_at: float
    revoked_at: float | None = None
    why_revoked: str = ""


class Presence(Document):
    online: bool = False
    since: float | None = None
    last_seen: float | None = None
    """When anything came from it."""
    flaps: int = 0
    """Comings and goings within the flapping window."""


class Quarantine(Document):
    """Kept out of rollouts; its own group's state still reaches it."""

    since: float
    until: float | None = None
    """None: until an operator ends it."""
    why: str


class Device(Document):
    id: DeviceName
    labels: Labels = Field(default_factory=dict)
    group: GroupName = EVERYBODY
    enrolled_at: float | None = None
    """None: it came by itself (a region without enrolment)."""
    revoked_at: float | None = None
    quarantine: Quarantine | None = None
    presence: Presence = Presence()
    inventory: ReportedInventory | None = None
    model: ReportedModel | None = None
    profile: ReportedProfile | None = None
    desired_model: DesiredModel | None = None
    desired_profile: DesiredProfile | None = None
    certificates: tuple[Certificate, ...] = ()
    revision: int = 0
    """Rises with every change of labels, quarantine or revocation; compare-and-set is by it."""


class Group(Document):
    """Each device is in exactly one: of those whose selector takes it the one with the highest
    priority, then the first by name; otherwise in `all`. So groups never overlap.
    """

    name: GroupName
    selector: SelectorText = ""
    """As `site=lyon,hw in (jetson,pi5),!spare` (`cloud/fleet/selector.py`); empty: every device."""
    priority: Annotated[int, Field(ge=0, le=1000)] = 100
    models: dict[Name, "Baseline"] = Field(default_factory=dict)
    """What its devices have when no rollout moves them: newcomers get it."""
    profile: "ProfileRef | None" = None
    revision: int = 0


class Baseline(Document):
    version: Version
    manifest_sha256: Sha256


class ProfileRef(Document):
    name: Name
    version: Annotated[int, Field(ge=1, le=10**6)]


class Profile(Document):
    """A version of a device profile. Immutable."""

    name: Name
    version: Annotated[int, Field(ge=1, le=10**6)]
    sha256: Sha256
    settings: ProfileSettings
    pushed_by: Actor
    pushed_at: float


class EnrolmentToken(Document):
    """Without its secret, which is shown once."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{8,32}$")]
    device: DeviceName | None = None
    """Whom it is for; None: whoever has it names the device."""
    labels: Labels = Field(default_factory=dict)
    made_by: Actor
    made_at: float
    expires_at: float
    used_at: float | None = None
    used_for: DeviceName | None = None


class FleetEvent(Document):
    """A line of the fleet's log; nothing is ever changed in it."""

    seq: int
    at: float
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}$")]
    actor: Actor
    """Who: an operator's key name, "rollout", "device"."""
    device: DeviceName | None = None
    rollout: RolloutId | None = None
    words: Annotated[str, StringConstraints(max_length=1000)]
