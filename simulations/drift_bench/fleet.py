"""One simulated fleet: who sees what, who reports when, and when it is looked at. Pure.

Each site sees classes in its own proportion, which changes between day and night as the light does.
Cameras report each half minute, and looks come each `look_s`: each at moments of its own.
"""

import math
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.monitoring.drift.reference import of_manifest
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.watch import Watch
from simulations.drift_bench.camera import Camera
from simulations.drift_bench.material import LIGHT, Material, light

GROUPS: Final = 4
DEVICES: Final = 6
"""Of each group."""
REPORT_S: Final = 30.0
DAY_S: Final = 86_400.0
_SITE: Final = 5.0
"""Concentration of a site's proportions of classes: its rarest class is seen a fifth as often as the
usual one."""
_DEVICE: Final = 60.0


class Fleet:
    def __init__(self, material: Material, seed: int, settings: DriftSettings) -> None:
        self._material, self._look_s = material, settings.look_s
        self._rng = np.random.default_rng(seed)
        self._ordered = np.concatenate(material.by_class)
        self._sizes = np.asarray([len(one) for one in material.by_class])
        self._begins = np.cumsum(self._sizes) - self._sizes
        self.watch = Watch(settings)
        self.watch.know(of_manifest(material.manifest))
        self.cameras = [camera for at in range(GROUPS) for camera in self._site(f"site-{at}")]
        self.begins = float(self._rng.uniform(0, DAY_S))
        """Seconds since midnight."""

    def moments(self, seconds: float) -> Iterator[tuple[float, Camera | None]]:
        """What happens from `begins` on, in order: a camera reports, or, None, a look is due."""
        every = [self._moments_of(camera, REPORT_S, seconds) for camera in self.cameras]
        return merge(*every, self._moments_of(None, self._look_s, seconds), key=itemgetter(0))

    def see(self, camera: Camera, samples: float, now: float, shift: str | None = None) -> int:
        """Let it see so many, on average, in the light of `now`; how many it saw."""
        count = int(self._rng.poisson(samples)) if samples else 0
        if count:
            day = 0.5 - 0.5 * math.cos(2 * math.pi * now / DAY_S)
            lit = light(LIGHT[round(day * (len(LIGHT) - 1))])
            scene = self._material.scenes[lit if shift is None else shift]
            camera.see(scene, self._draw(count, camera.proportions(day)), now)
        return count

    def report(self, camera: Camera, now: float) -> None:
        """What it has seen."""
        self.watch.feed(camera.name, camera.group, camera.report(now, REPORT_S), now)

    def _moments_of(
        self, who: Camera | None, period_s: float, seconds: float
    ) -> list[tuple[float, Camera | None]]:
        first = self._rng.uniform(0, period_s)
        return [(self.begins + at, who) for at in np.arange(first, seconds, period_s).tolist()]

    def _site(self, name: str) -> list[Camera]:
        rng, classes = self._rng, len(self._material.by_class)
        by_day, by_night = rng.dirichlet([_SITE] * classes), rng.dirichlet([_SITE] * classes)
        return [
            Camera(
                f"{name}-camera-{at}", name, self._material.manifest,
                rng.dirichlet(by_day * _DEVICE + 0.1), rng.dirichlet(by_night * _DEVICE + 0.1),
            )
            for at in range(DEVICES)
        ]  # fmt: skip

    def _draw(self, count: int, proportions: NDArray[np.float64]) -> list[int]:
        """Indices of images."""
        edges = np.cumsum(proportions)[:-1]
        labels = np.searchsorted(edges, self._rng.random(count), side="right")
        within = (self._rng.random(count) * self._sizes[labels]).astype(np.intp)
        found: list[int] = self._ordered[self._begins[labels] + within].tolist()
        return found
