"""The agent's settings under a device profile. Pure.

What a profile does not set stays as the device's own file has it. A profile is taken whole or not
at all.
"""

from dataclasses import dataclass
from typing import Literal

from edge.routing.settings import Routing
from shared.day_span import parse_span
from shared.fleet.profile import ProfileSettings

LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What may change while the agent runs."""

    routing: Routing
    telemetry_s: float
    log_level: LogLevel
    update_windows: tuple[str, ...] = ()
    update_bytes_per_s: float | None = None


def tuned(own: Tuning, profile: ProfileSettings | None, audit_share: float | None) -> Tuning:
    """`own`: of the device's file. `audit_share`: what a rollout that gathers evidence asks for.

    Raises `Malformed` for an empty update window.
    """
    routing, profile = own.routing, profile or ProfileSettings()
    changes: dict[str, object] = {}
    if profile.threshold is not None or profile.confidence_min is not None:
        changes |= {"threshold": profile.threshold, "confidence_min": profile.confidence_min}
    for share in (profile.audit_share, audit_share):
        if share is not None:
            changes["audit_share"] = share
    novelty = {
        name: value
        for name, value in (("on", profile.novelty), ("audit_share", profile.novelty_audit_share))
        if value is not None
    }
    if novelty:
        changes["novelty"] = routing.novelty.model_copy(update=novelty)
    budget = {
        name: rate
        for name, rate in (
            ("samples_per_s", profile.samples_per_s), ("bytes_per_s", profile.bytes_per_s),
        )
        if rate is not None
    }  # fmt: skip
    if budget:
        changes["budget"] = routing.budget.model_copy(update=budget)
    for span in profile.update_windows or ():
        parse_span(span)
    return Tuning(
        routing.model_copy(update=changes) if changes else routing,
        own.telemetry_s if profile.telemetry_s is None else profile.telemetry_s,
        profile.log_level or own.log_level,
        own.update_windows if profile.update_windows is None else profile.update_windows,
        profile.update_bytes_per_s or own.update_bytes_per_s,
    )
