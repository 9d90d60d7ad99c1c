"""From what a device said to what the store and rollouts are told. Pure."""

from collections.abc import Iterable

from cloud.fleet.heard import Heard, PresenceChange, Seen
from cloud.fleet.parsing import Said, State
from cloud.fleet.recording import Recorded
from cloud.rollouts.events import Came, Event, Measured, Removed, Reported, Returned, Went
from shared.fleet.asking import Told
from shared.fleet.reported import ReportedInventory
from shared.fleet.telemetry import Telemetry


def heard(one: Said) -> Heard:
    """For the store; telemetry is not kept there."""
    match one.document:
        case State(online=online):
            return PresenceChange(online)
        case Telemetry() | Told():
            return Seen()
        case report:
            return report


def events(recorded: Recorded, batch: Iterable[Said]) -> list[Event]:
    """For rollouts, of a batch that was stored: what was accepted, and telemetry of those whom the
    fleet knows.
    """
    found = [event for device, one in recorded.accepted for event in _of(device, one)]
    found += [Measured(device, telemetry) for device, telemetry in reports(recorded, batch)]
    found += [Removed(device, "quarantined: it comes and goes") for device in recorded.quarantined]
    found += [Returned(device) for device in recorded.returned]
    return found


def reports(recorded: Recorded, batch: Iterable[Said]) -> list[tuple[str, Telemetry]]:
    """Telemetry of those whom the fleet knows."""
    return [
        (one.device, one.document)
        for one in batch
        if isinstance(one.document, Telemetry) and one.device not in recorded.strangers
    ]


def _of(device: str, one: Heard) -> Iterable[Event]:
    match one:
        case PresenceChange(online):
            yield Came(device) if online else Went(device)
        case Seen() | ReportedInventory():
            pass
        case report:
            yield Reported(device, report)
