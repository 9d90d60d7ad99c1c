"""What a device says that it is: one retained message a section, sent when the section changes.

`hy/v1/{device}/up/reported/{section}`. Everything in here is the device's word: a region checks it
against what it asked for, and takes times from its own clock.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shared.bundle.manifest import Name, Sha256, Version
from shared.fleet.document import Count, Document, RolloutId, Text

Section = Literal["model", "profile", "inventory"]
SECTIONS: tuple[Section, ...] = ("model", "profile", "inventory")
BYTES_MAX = 16 * 1024


class DevicePhase(StrEnum):
    """Of the desired version on the device. The last four are ends for this attempt."""

    ACCEPTED = "accepted"
    DOWNLOADING = "downloading"
    VERIFIED = "verified"  # signature and hashes; now its golden samples are run
    STAGED = "staged"  # passed everything, runs in shadow, waits for stage live
    TRIAL = "trial"  # in shadow for the last time before it takes over
    COMMITTED = "committed"  # it answers
    REJECTED = "rejected"  # it did not pass here: golden samples, latency, trial; see why
    FAILED = "failed"  # it could not be tried: no room, not fetched, not released; see why
    ROLLED_BACK = "rolled_back"  # it answered, and the device went back by itself


class _Reported(Document):
    sequence: Count
    """Rises with every report of this section from this device, over restarts too."""
    at: float
    """Unix seconds by the device's clock, which may be wrong."""


class ReportedModel(_Reported):
    generation: Count = 0
    """Of the desired section that this answers; 0: none came yet."""
    rollout: RolloutId | None = None
    attempt: Annotated[int, Field(ge=0, le=1000)] = 0
    phase: DevicePhase
    model: Name
    version: Version
    """What answers now."""
    manifest_sha256: Sha256
    variant: Annotated[str, StringConstraints(max_length=40)] = ""
    """As `onnxruntime/int8`."""
    candidate: Version | None = None
    """What is on its way."""
    why: Text = ""
    """It is in this phase."""
    golden_failed: bool = False
    """With phase rejected: the golden samples were the reason."""


class ReportedProfile(_Reported):
    generation: Count = 0
    name: Name | None = None
    """None: the device's own settings alone."""
    version: Annotated[int, Field(ge=0, le=10**6)] = 0
    sha256: Sha256 | None = None
    applied: bool = True
    """False: refused, and what was applied before still is; see why."""
    rollout: RolloutId | None = None
    """It answers the order of this rollout, at this attempt."""
    attempt: Annotated[int, Field(ge=0, le=1000)] = 0
    why: Text = ""


class ReportedInventory(_Reported):
    """Hardware and engines."""

    agent: Annotated[str, StringConstraints(max_length=40)]
    system: Annotated[str, StringConstraints(max_length=200)]
    arch: Annotated[str, StringConstraints(max_length=40)]
    cpu: Annotated[str, StringConstraints(max_length=200)]
    cores: Annotated[int, Field(ge=1, le=4096)]
    memory_bytes: Count
    disk_bytes: Count
    engines: Annotated[
        dict[
            Annotated[str, StringConstraints(max_length=40)],
            Annotated[str, StringConstraints(max_length=80)],
        ],
        Field(max_length=16),
    ] = Field(default_factory=dict)
    """Package -> version, of those that run here."""
    time_zone: Annotated[str, StringConstraints(max_length=64)] = "UTC"
    """IANA name: maintenance windows are in it."""
    certificate_serial: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Of the certificate that the device uses, in hex."""
