"""Escalate a sample or accept the edge's answer. Pure: the random number comes from the caller."""

from dataclasses import dataclass

from edge.answers import Route
from shared.bundle.manifest import Calibration
from shared.errors import Unknown


@dataclass(frozen=True, slots=True)
class Policy:
    confidence_min: float
    audit_share: float

    def route(self, confidence: float, draw: float, audit_share: float | None = None) -> Route:
        """`draw` is uniform in [0, 1); `audit_share` in place of the policy's own. A confidence that is
        no number escalates.
        """
        if not confidence >= self.confidence_min:
            return "escalated"
        share = self.audit_share if audit_share is None else audit_share
        return "audit" if draw < share else "accepted"


ALONE = Policy(confidence_min=0.0, audit_share=0.0)  # no cloud: every edge answer stands


def policy_of(
    calibration: Calibration, name: str | None, confidence_min: float | None, audit_share: float
) -> Policy:
    """The bundle's threshold by name (its default for None), or an explicit one.

    Raises `Unknown` for a name that the bundle does not list. A bundle without thresholds never
    escalates by confidence.
    """
    if confidence_min is not None:
        return Policy(confidence_min, audit_share)
    wanted = name or calibration.default_threshold
    if wanted is None:
        return Policy(0.0, audit_share)
    for threshold in calibration.thresholds:
        if threshold.name == wanted:
            return Policy(threshold.confidence_min, audit_share)
    names = ", ".join(threshold.name for threshold in calibration.thresholds) or "none"
    raise Unknown(f"routing.threshold {wanted!r} is not in the bundle's table; it has {names}")
