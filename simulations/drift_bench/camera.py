"""One simulated camera: the agent's own novelty watch over what it sees, and its reports. Pure."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from edge.routing.novelty import NoveltyWatch
from edge.routing.settings import Routing
from shared.bundle.manifest import Manifest
from shared.fleet.telemetry import Tally, Telemetry
from simulations.drift_bench.material import Scene, Seen

_TENSOR = np.zeros((28, 28), np.uint8)  # its size counts, what it shows is known


class Camera:
    """`classes` and `by_night`: its proportions of them by day and by night, [classes]."""

    def __init__(
        self, name: str, group: str, manifest: Manifest, classes: NDArray[np.float64],
        by_night: NDArray[np.float64],
    ) -> None:  # fmt: skip
        self.name, self.group = name, group
        self._classes, self._by_night = classes, by_night
        self._manifest, self._sketching = manifest, Seen(manifest.reference)
        routing = Routing()
        self._watch = NoveltyWatch(
            self._sketching, routing.novelty, routing.budget, routing.audit_share, 0.0
        )
        self._samples = self._sequence = 0

    def proportions(self, day: float) -> NDArray[np.float64]:
        """[classes], `day` from 0 at midnight to 1 at noon."""
        return day * self._classes + (1 - day) * self._by_night

    def see(self, scene: Scene, images: Iterable[int], now: float) -> None:
        watch = self._watch
        for image in images:
            self._samples += 1
            if watch.said(scene.labels[image], scene.confidences[image]):
                self._sketching.known = scene.cells[image]
                watch.look(_TENSOR, now)

    def report(self, now: float, interval_s: float) -> Telemetry:
        self._sequence += 1
        return Telemetry(
            boot=f"{1:016x}", sequence=self._sequence, at=now, uptime_s=now, interval_s=interval_s,
            tally=Tally(
                model=self._manifest.name, version=self._manifest.version, samples=self._samples
            ),
            sketches=self._sketching.document(),
        )  # fmt: skip
