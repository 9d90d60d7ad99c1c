"""What the agent needs of the model that answers now; another version replaces it as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.inference.slot import Logits, Slot
from edge.routing.novelty import NoveltyWatch
from edge.routing.policy import ALONE, Policy, policy_of
from edge.routing.settings import Routing
from edge.telemetry.sketching import Sketching, usable
from edge.telemetry.tally import VersionTally
from shared.bundle.manifest import Manifest
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
    watch: NoveltyWatch | None  # where there is a cloud to ask, and a reference
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
    slot: Slot,
    routing: Routing,
    now: float,
    *,
    alone: bool,
    tally: VersionTally | None = None,
    watch: NoveltyWatch | None = None,
) -> Active:
    """`alone`: there is no cloud to ask. `watch`: of this very version, goes on. `now`: by
    `time.monotonic`.

    Raises `Unknown` for a routing threshold that the bundle does not have.
    """
    manifest, policy = slot.manifest, ALONE
    if alone:
        watch = None
    else:
        policy = policy_of(
            manifest.calibration, routing.threshold, routing.confidence_min, routing.audit_share
        )
        watch = _watch(watch, manifest, routing, now, counted=tally is not None)
    return Active(
        slot, manifest.name, manifest.version, manifest.calibration.temperature,
        Encoder(routing.payload or manifest.payload.codec, slot.bundle.dictionary), policy, watch,
        tally,
    )  # fmt: skip


def _watch(
    watch: NoveltyWatch | None, manifest: Manifest, routing: Routing, now: float, *, counted: bool
) -> NoveltyWatch | None:
    if not (routing.novelty.on or counted) or not usable(manifest.reference):
        return None
    terms = (routing.novelty, routing.budget, routing.audit_share, now)
    if watch is None:
        return NoveltyWatch(Sketching(manifest.reference), *terms)
    watch.retune(*terms)
    return watch
