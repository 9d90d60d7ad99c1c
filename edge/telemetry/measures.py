"""What the agent counts for its region while it answers. Pure: plain counters, no clock."""

import numpy as np
from numpy.typing import NDArray

from edge.answers import Route
from edge.telemetry.inputs import EVERY, Inputs
from edge.telemetry.tally import VersionTally
from shared.bundle.manifest import Manifest


class Measures:
    def __init__(self, manifest: Manifest, now: float) -> None:
        """`now` by the agent's clock, as everywhere here."""
        self.tally = VersionTally(manifest, 0, now)
        self.inputs = Inputs()
        self._until_look = 1  # the first sample is looked at, then one in `EVERY`

    def serve(self, manifest: Manifest, now: float) -> None:
        """Another version answers from now on; what the one before did was reported, or is lost
        with the seconds since.
        """
        self.tally = VersionTally(manifest, self.tally.started + 1, now)

    def judged(
        self,
        tensor: NDArray[np.uint8],
        label: int,
        confidence: float,
        route: Route,
        latency_ms: float,
    ) -> None:
        self.tally.judged(label, confidence, route, latency_ms)
        self._until_look -= 1
        if not self._until_look:
            self._until_look = EVERY
            self.inputs.look(tensor)
