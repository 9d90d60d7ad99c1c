"""What the uplink needs to know about model and settings."""

from dataclasses import dataclass

from edge.config import Deadlines
from edge.uplink.sender import Limits
from shared.bundle.manifest import Manifest
from shared.ids import DeviceId


@dataclass(frozen=True, slots=True)
class Terms:
    device: DeviceId
    manifest: Manifest
    deadlines: Deadlines
    fusion: bool
    limits: Limits
