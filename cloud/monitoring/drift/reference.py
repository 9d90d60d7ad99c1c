"""What a version was calibrated on, as the one flat row of counters that windows are kept in. Pure.

A row has the bins of every feature of the reference, one after another, and then `EXTRAS`. Rows of
one reference add up; rows of different ones have nothing to do with each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.bundle.manifest import Manifest, Sketch
from shared.features import ANSWER_FEATURES, INPUT_FEATURES
from shared.fleet.telemetry import BINS_MAX, FEATURES_MAX, Sketches
from shared.sketches import reference_hash

EXTRAS: Final = 5
SAMPLES, ESCALATED, NOVEL, LOOKED, MISSING = range(-EXTRAS, 0)
"""Places of the counters behind the bins."""
_KNOWN: Final = (*INPUT_FEATURES, *ANSWER_FEATURES)
_SHARE_MIN: Final = 0.005
"""Bins inside that hold less of the reference are looked at with their neighbour: of 200 samples one
would lie there. The outermost ones are not: what lies beyond all that was seen is news."""
_WRAP: Final = (1 << 32) - 1
"""Counters are held modulo 2^32: differences come out right after a year on one version, too."""
Row = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature's place in a row, and what the reference holds."""

    name: str
    begin: int
    end: int
    counts: tuple[int, ...]
    """The reference's, by bin."""
    pooled: NDArray[np.intp] = field(compare=False)
    """Of its bins, where each pooled one begins."""
    expected: NDArray[np.float64] = field(compare=False)
    """The reference's counts by pooled bin."""

    @property
    def is_input(self) -> bool:
        return self.name in INPUT_FEATURES


@dataclass(frozen=True, slots=True)
class Reference:
    """Of one version; without features where its bundle has none that could be counted."""

    model: str
    version: str
    hash: str
    features: tuple[Feature, ...] = ()
    expected_accuracy: float | None = None

    @property
    def width(self) -> int:
        return (self.features[-1].end if self.features else 0) + EXTRAS

    def row(self, sketches: Sketches) -> Row | None:
        """The bins of a report as a row without extras; None where its shape is another one."""
        row = np.zeros(self.width, np.uint32)
        for feature in self.features:
            counts = sketches.counts.get(feature.name)
            if counts is None:
                continue  # a device that does not look at it
            if len(counts) != feature.end - feature.begin:
                return None
            row[feature.begin : feature.end] = [count & _WRAP for count in counts]
        return row


def of_manifest(manifest: Manifest) -> Reference:
    """The first features that devices report, in the order in which devices and training know them."""
    return of_sketches(
        manifest.name, manifest.version, manifest.reference, _promised(manifest)
    )  # fmt: skip


def of_sketches(
    model: str, version: str, sketches: Sequence[Sketch], expected_accuracy: float | None = None
) -> Reference:
    """As `of_manifest`."""
    return Reference(
        model, version, reference_hash(sketches), _placed(sketches), expected_accuracy
    )  # fmt: skip


def without(model: str, version: str) -> Reference:
    """Of a version of which nothing is known: accuracy, missing and silence are watched."""
    return Reference(model, version, "")


def _placed(sketches: Iterable[Sketch]) -> tuple[Feature, ...]:
    by_name: dict[str, Sketch] = {}
    for one in sketches:  # as devices do
        if 2 <= len(one.counts) <= BINS_MAX:
            by_name.setdefault(one.feature, one)
    found: list[Feature] = []
    at = 0
    for name in _KNOWN[:FEATURES_MAX]:
        sketch = by_name.get(name)
        if sketch is None or sum(sketch.counts) == 0:
            continue
        counts = np.asarray(sketch.counts, np.float64)
        starts = _pooled(counts)
        found.append(
            Feature(
                name, at, at + len(counts), sketch.counts, starts, np.add.reduceat(counts, starts)
            )
        )
        at += len(counts)
    return tuple(found)


def _pooled(counts: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where pooled bins begin."""
    least, last = _SHARE_MIN * counts.sum(), len(counts) - 1
    starts, held = [0], least
    for place in range(1, last):
        if held >= least:
            starts.append(place)
            held = 0.0
        held += counts[place]
    if held < least and len(starts) > 2:
        starts.pop()
    if last > 0:
        starts.append(last)
    return np.asarray(starts, np.intp)


def _promised(manifest: Manifest) -> float | None:
    """Of the edge's answers, the share that was right on the calibration split."""
    metrics = manifest.lineage.metrics
    names = [f"edge {one.precision} accuracy" for one in manifest.variants]
    found = next((metrics[name] for name in names if name in metrics), None)
    return None if found is None or not 0 <= found <= 1 else found
