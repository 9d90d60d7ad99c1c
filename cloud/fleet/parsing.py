"""From a message of a device to what it says. Pure.

The broker's ACL vouches for the device that a topic names, and for nothing that the device says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.errors import Malformed
from shared.fleet import asking, reported, telemetry
from shared.fleet.asking import Told
from shared.fleet.document import Document
from shared.fleet.reported import ReportedInventory, ReportedModel, ReportedProfile
from shared.fleet.telemetry import Telemetry
from shared.topics import fleet_message

STATE_BYTES_MAX = 1024
KINDS: Final = (
    "state", "tel", "told", "reported/model", "reported/profile", "reported/inventory",
)  # fmt: skip
_REPORTS: Final[Mapping[str, type[ReportedModel | ReportedProfile | ReportedInventory]]] = {
    "reported/model": ReportedModel,
    "reported/profile": ReportedProfile,
    "reported/inventory": ReportedInventory,
}


def bytes_max(kind: str) -> int:
    """Of a message; `kind` is one of `KINDS`."""
    match kind:
        case "state":
            return STATE_BYTES_MAX
        case "tel":
            return telemetry.BYTES_MAX
        case "told":
            return asking.TOLD_BYTES_MAX
        case _:
            return reported.BYTES_MAX


class State(Document):
    """Presence: `up/state`, retained, also as its last will."""

    online: bool


@dataclass(frozen=True, slots=True)
class Said:
    """`kind` is one of `KINDS`."""

    device: str
    kind: str
    document: State | Telemetry | Told | ReportedModel | ReportedProfile | ReportedInventory


def whose(topic: str) -> tuple[str, str]:
    """The device and the kind of message. Cheap: the payload is not looked at. Raises `Malformed`."""
    device, kind = fleet_message(topic)
    if kind not in KINDS:
        raise Malformed(f"{kind[:80]!r}: devices report {', '.join(reported.SECTIONS)}")
    return device, kind


def said(device: str, kind: str, payload: bytes) -> Said:
    """Raises `Malformed` or `TooLarge`, in words."""
    match kind:
        case "state":
            return Said(device, kind, State.from_bytes(payload, bytes_max(kind)))
        case "tel":
            return Said(device, kind, Telemetry.from_bytes(payload, bytes_max(kind)))
        case "told":
            return Said(device, kind, Told.from_bytes(payload, bytes_max(kind)))
        case _:
            return Said(device, kind, _REPORTS[kind].from_bytes(payload, bytes_max(kind)))
