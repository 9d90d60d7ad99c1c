"""How inputs and answers are spread, in the bins of a version's own reference. Pure.

Cheap: `said` runs for each sample, and `look` costs ten times as much, so only some inputs are
looked at; which ones does not depend on what they hold.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.bundle.manifest import Sketch
from shared.features import ANSWER_FEATURES, INPUT_FEATURES, input_features, nothing_to_see
from shared.fleet.telemetry import BINS_MAX, Sketches
from shared.sketches import reference_hash


@dataclass(frozen=True, slots=True)
class Feature:
    """One sketch of the reference, and which cells its bins are."""

    sketch: Sketch
    first: int
    """Of `Sketching.cells`; as many follow as there are counts."""

    @property
    def name(self) -> str:
        return self.sketch.feature

    @property
    def is_of_input(self) -> bool:
        return self.name in INPUT_FEATURES

    def of(self, cells: Sequence[int]) -> Sequence[int]:
        return cells[self.first : self.first + len(self.sketch.counts)]


class Sketching:
    """What the reference does not have, or has in more bins than a report takes, is not counted."""

    __slots__ = (
        "_class_edges", "_class_first", "_confidence_edges", "_confidence_first", "_inputs",
        "_reference", "cells", "features", "looked", "missing",
    )  # fmt: skip

    def __init__(self, reference: Sequence[Sketch]) -> None:
        self._reference = reference_hash(reference)
        found, self.features, first = usable(reference), list[Feature](), 0
        for name in (*INPUT_FEATURES, *ANSWER_FEATURES):
            if (sketch := found.get(name)) is not None:
                self.features.append(Feature(sketch, first))
                first += len(sketch.counts)
        at = {feature.name: feature for feature in self.features}
        self._inputs = [
            (place, at[name].sketch.edges, at[name].first)
            for place, name in enumerate(INPUT_FEATURES)
            if name in at
        ]
        self._confidence_edges, self._confidence_first = _place(at.get("confidence"), first)
        self._class_edges, self._class_first = _place(at.get("predicted_class"), first)
        self.cells = [0] * (first + 1)  # the last one is of answers that the reference knows not
        self.looked = self.missing = 0

    def said(self, label: int, confidence: float) -> None:
        """One answer; `confidence` in 0..1."""
        cells = self.cells
        cells[self._confidence_first + bisect_right(self._confidence_edges, confidence)] += 1
        cells[self._class_first + bisect_right(self._class_edges, label)] += 1

    def look(self, tensor: NDArray[np.uint8]) -> list[int]:
        """Cells that one input was counted in; none where there was nothing to see."""
        self.looked += 1
        features = input_features(tensor)
        if nothing_to_see(features):
            self.missing += 1
            return []
        hit = [first + bisect_right(edges, features[at]) for at, edges, first in self._inputs]
        for cell in hit:
            self.cells[cell] += 1
        return hit

    def document(self) -> Sketches:
        return Sketches(
            reference=self._reference,
            looked=self.looked,
            missing=self.missing,
            counts={feature.name: tuple(feature.of(self.cells)) for feature in self.features},
        )


def usable(reference: Sequence[Sketch]) -> dict[str, Sketch]:
    """By feature, the first of each that has two bins or more, and fits a report."""
    found = dict[str, Sketch]()
    for sketch in reference:
        known = sketch.feature in (*INPUT_FEATURES, *ANSWER_FEATURES)
        if known and 2 <= len(sketch.counts) <= BINS_MAX:
            found.setdefault(sketch.feature, sketch)
    return found


def _place(feature: Feature | None, beyond: int) -> tuple[Sequence[float], int]:
    return ((), beyond) if feature is None else (feature.sketch.edges, feature.first)
