"""What a device reports to its fleet about its update. Pure."""

from dataclasses import dataclass
from typing import assert_never

from edge.updates.release import Release
from edge.updates.state import WHY_MAX, State, refusal_of_target
from shared.fleet.reported import DevicePhase

OPERATOR = "an operator on the device went back; `hybridge-edge updates resume` ends it"


@dataclass(frozen=True, slots=True)
class FleetView:
    phase: DevicePhase
    """Of what the fleet asks for; committed where it asks for nothing."""
    active: Release
    """What answers now."""
    candidate: Release | None
    why: str
    """At most `WHY_MAX` characters."""
    golden_failed: bool
    """With phase rejected: the golden samples were the reason."""
    generation: int
    """Of the target that this answers, which is on disk; 0: none came yet."""
    rollout: str | None
    attempt: int


def view_of(state: State, answering: Release, note: str = "") -> FleetView:
    """`note`: what keeps the device from looking, where nothing better is known."""
    phase, why, golden = _phase(state, answering, note)
    target = state.target
    return FleetView(
        phase, answering, state.candidate, why[:WHY_MAX], golden,
        0 if target is None else target.generation,
        None if target is None else target.rollout,
        0 if target is None else target.attempt,
    )  # fmt: skip


def _phase(state: State, answering: Release, note: str) -> tuple[DevicePhase, str, bool]:
    target = state.target
    if target is None or target.names(answering):
        return DevicePhase.COMMITTED, "" if target is None else state.why, False
    if (refusal := refusal_of_target(state)) is not None:
        phase = DevicePhase.ROLLED_BACK if refusal.ran else DevicePhase.REJECTED
        return phase, refusal.why, refusal.golden
    if state.held_number is not None:
        return DevicePhase.ROLLED_BACK, OPERATOR, False
    match state.phase:
        case "idle" | "active" | "rejected":
            return DevicePhase.ACCEPTED, note or state.why, False
        case "restoring":
            return DevicePhase.ACCEPTED, state.why, False
        case "downloading" | "verifying":
            return DevicePhase.DOWNLOADING, note or state.why, False
        case "probing":
            return DevicePhase.VERIFIED, state.why, False
        case "staged":
            return DevicePhase.STAGED, state.why, False
        case "trial":
            return DevicePhase.TRIAL, state.why, False
        case "failed":
            return DevicePhase.FAILED, state.why, False
        case _:
            assert_never(state.phase)
