"""What the agent needs of the model that answers now; another version replaces it as a whole."""

from dataclasses import dataclass

from edge.config import Config
from edge.inference.slot import Slot
from edge.routing.policy import ALONE, Policy, policy_of
from shared.wire.pixels import Encoder


@dataclass(frozen=True, slots=True)
class Active:
    """A slot with what one sample needs besides it."""

    slot: Slot
    model: str
    version: str
    temperature: float
    encoder: Encoder
    policy: Policy


def activate(slot: Slot, config: Config) -> Active:
    """Raises `Unknown` for a routing threshold that the bundle does not have."""
    manifest, routing = slot.manifest, config.routing
    policy = ALONE
    if config.uplink is not None:
        policy = policy_of(
            manifest.calibration, routing.threshold, routing.confidence_min, routing.audit_share
        )
    return Active(
        slot, manifest.name, manifest.version, manifest.calibration.temperature,
        Encoder(routing.payload or manifest.payload.codec, slot.bundle.dictionary), policy,
    )  # fmt: skip
