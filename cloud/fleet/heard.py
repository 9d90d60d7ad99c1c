"""What the fleet hears of a device, and what it then holds of it. Pure.

Everything here is the device's word: an older report never replaces a newer one, and times are the
region's.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from cloud.fleet.desired_state import GENERATION_BELIEVED_MAX
from cloud.fleet.device_settings import PresenceSettings
from cloud.fleet.presence import PresenceState, changed
from shared.fleet.reported import ReportedInventory, ReportedModel, ReportedProfile

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}")
CLOCK_AHEAD_S: Final = 300.0
"""By so much a device's clock may be ahead and still be asked which of two reports is later."""
FLAPS: Final = "it comes and goes"


@dataclass(frozen=True, slots=True)
class PresenceChange:
    """A birth, or a last will."""

    online: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """Something came from it that is not kept here, as telemetry."""


Report = ReportedModel | ReportedProfile | ReportedInventory
Heard = Report | PresenceChange | Seen
Refusal = Literal["unknown device", "revoked", "no room", "old report", "not believed"]


@dataclass(frozen=True, slots=True)
class LastReport:
    """Of one section. `at` is by the device's clock, at most `CLOCK_AHEAD_S` in the future."""

    sequence: int = -1
    at: float = 0.0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What hearing may change."""

    presence: PresenceState = field(default_factory=PresenceState)
    last_seen: float | None = None
    revoked: bool = False
    quarantined_at: float | None = None
    quarantined_until: float | None = None
    quarantine_why: str = ""
    arch: str = ""
    engines: str = ""
    """Names in order, with a blank between two."""
    model: str = ""
    version: str = ""
    last_model: LastReport = LastReport()
    last_profile: LastReport = LastReport()
    last_inventory: LastReport = LastReport()
    unsettled: bool = False
    """Its group or its desired state may have to change."""


def hear(
    state: DeviceState, heard: Heard, now: float, settings: PresenceSettings
) -> DeviceState | Refusal:
    """The state after it. A copy of a report, or an older one, is refused and changes nothing."""
    if state.revoked:
        return "revoked"
    match heard:
        case Seen():
            return replace(state, last_seen=now)
        case PresenceChange(online):
            return _presence(replace(state, last_seen=now), online, now, settings)
        case _:
            return _report(state, heard, now)


def quarantined(state: DeviceState, now: float) -> bool:
    """Whether it is; a time that is over has ended by itself."""
    return state.quarantined_at is not None and (
        state.quarantined_until is None or now < state.quarantined_until
    )


def _presence(
    state: DeviceState, online: bool, now: float, settings: PresenceSettings
) -> DeviceState:
    presence, until = changed(state.presence, online, now, settings)
    state = replace(state, presence=presence)
    if until is None or (quarantined(state, now) and state.quarantined_until is None):
        return state  # an operator's quarantine is not shortened
    return replace(
        state, quarantined_at=now, quarantine_why=FLAPS,
        quarantined_until=max(until, state.quarantined_until or 0.0),
    )  # fmt: skip


def _begins_anew(report: Report, last: LastReport, now: float) -> bool:
    """A device whose disk was made anew counts from the beginning; its clock says that it is later
    (a copy has the same time). It may have counted no further than that before.
    Of a clock that is wrong nobody knows: then it takes a new enrolment, or a removal.
    """
    return report.sequence <= last.sequence and last.at < report.at <= now + CLOCK_AHEAD_S


def _report(state: DeviceState, report: Report, now: float) -> DeviceState | Refusal:
    match report:
        case ReportedModel():
            last = state.last_model
        case ReportedProfile():
            last = state.last_profile
        case ReportedInventory():
            last = state.last_inventory
    at = min(report.at, now + CLOCK_AHEAD_S)
    if report.sequence <= last.sequence and not _begins_anew(report, last, now):
        return "old report"
    if isinstance(report, ReportedInventory):
        arch = report.arch if _PLAIN.fullmatch(report.arch) else ""
        engines = " ".join(sorted(name for name in report.engines if _PLAIN.fullmatch(name)))
        moved = (arch, engines) != (state.arch, state.engines)
        return replace(
            state, last_seen=now, arch=arch, engines=engines, unsettled=state.unsettled or moved,
            last_inventory=LastReport(report.sequence, at),
        )  # fmt: skip
    if report.generation > GENERATION_BELIEVED_MAX:
        return "not believed"
    newest = LastReport(report.sequence, at, report.generation)
    ahead = report.generation > last.generation  # perhaps of the region's counter, too
    if isinstance(report, ReportedProfile):
        return replace(
            state, last_seen=now, last_profile=newest, unsettled=state.unsettled or ahead
        )
    return replace(
        state, last_seen=now, last_model=newest, model=report.model, version=report.version,
        unsettled=state.unsettled or ahead or report.model != state.model,
    )  # fmt: skip
