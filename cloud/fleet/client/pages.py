"""What the fleet's API answers that is no single document. Pure."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from cloud.document import DeviceName
from cloud.fleet.documents import Device, EnrolmentToken
from cloud.rollouts.documents import DeviceInRollout


class Page(BaseModel):
    """An older client meets a newer fleet: what it does not know it ignores."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class FleetState(Page):
    """Of the region's control plane."""

    name: Annotated[str, StringConstraints(max_length=200)]
    devices: Annotated[int, Field(ge=0)]
    online: Annotated[int, Field(ge=0)]
    rollouts: Annotated[int, Field(ge=0)]
    """Running or paused."""
    head: Annotated[int, Field(ge=0)]
    """Number of the log's last event."""
    broker: bool | None = None
    """Whether the link to the broker stands."""
    unpublished: bool | None = None
    """Desired state is on its way to the broker."""


class DevicePage(Page):
    devices: tuple[Device, ...]
    next: DeviceName | None = None
    """`after` of the next page; None: this is the last."""


class RolloutDevicePage(Page):
    devices: tuple[DeviceInRollout, ...]
    next: DeviceName | None = None


class TokenMade(Page):
    token: Annotated[str, StringConstraints(min_length=8, max_length=200, pattern=r"^[!-~]+$")]
    """With its secret: shown this once."""
    document: EnrolmentToken
