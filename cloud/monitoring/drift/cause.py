"""Where drift comes from, as far as counts can tell. Pure.

One device of several alone: its sensor. Since a version came, and not with the one before: the
model. A group together, with a version that it was at peace with: the scene. Otherwise nobody knows:
what stands without any one device is no sensor, whichever of them can be named.
"""

from dataclasses import dataclass
from typing import Final

from cloud.monitoring.drift.documents import Cause

_TOGETHER: Final = 0.5
"""Share of a scope's devices that drift, from which on it does so together."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    drifting: int
    """Devices of the scope that drift."""
    devices: int
    """Devices of the scope that could be looked at, those that drift among them."""
    others: int = 0
    """Beside them, for a device: the others of its group."""
    was_clean: bool = False
    """The scope was looked at with this very version before, and did not drift."""
    other_is_clean: bool = False
    """With another version of the model, the scope does not drift, or did not when it was last seen."""
    together: bool = False
    """It drifts without almost half of its devices, those that drift most, too."""


def of_device(at: Circumstances) -> Cause:
    if at.others and at.drifting <= 1:
        return Cause.SENSOR
    return Cause.UNKNOWN  # alone in its group, or not alone with its trouble


def of_many(at: Circumstances) -> Cause:
    """Of a group or the fleet."""
    if at.other_is_clean and not at.was_clean:
        return Cause.MODEL
    if at.together or (at.devices > 1 and 1 < at.drifting >= _TOGETHER * at.devices):
        return Cause.SCENE
    return Cause.UNKNOWN
