"""What the agent needs of the model that answers now; another version replaces it as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.inference.slot import Logits, Slot
from edge.routing.policy import ALONE, Policy, policy_of
from edge.routing.settings import Routing
from edge.telemetry.tally import VersionTally
from shared.errors import HybridgeError
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
    tally: VersionTally | None  # where somebody reads it

    def logits(self, tensor: NDArray[np.uint8]) -> Logits:
        """As `Slot.logits`; what the model raises is counted."""
        try:
            return self.slot.logits(tensor)
        except Exception as error:
            self._raised(error)
            raise

    async def logits_of(self, tensors: Sequence[NDArray[np.uint8]]) -> list[Logits]:
        """As `Slot.logits_of`, and counted."""
        try:
            return await self.slot.logits_of(tensors)
        except Exception as error:
            self._raised(error)
            raise

    def _raised(self, error: Exception) -> None:
        """A wrong tensor, or too many at once, is not the model's fault."""
        if self.tally is not None and not isinstance(error, HybridgeError):
            self.tally.raised()


def activate(
    slot: Slot, routing: Routing, *, alone: bool, tally: VersionTally | None = None
) -> Active:
    """`alone`: there is no cloud to ask. Raises `Unknown` for a routing threshold that the bundle
    does not have.
    """
    manifest, policy = slot.manifest, ALONE
    if not alone:
        policy = policy_of(
            manifest.calibration, routing.threshold, routing.confidence_min, routing.audit_share
        )
    return Active(
        slot, manifest.name, manifest.version, manifest.calibration.temperature,
        Encoder(routing.payload or manifest.payload.codec, slot.bundle.dictionary), policy, tally,
    )  # fmt: skip
