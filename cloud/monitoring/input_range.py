"""Whether an input lies where the model's calibration inputs lay, by its reference sketches. Pure.

A sketch has counts between edges, so its outermost counts reach to infinity. What is still in range
there is extrapolated: `margin` times the span of the edges, beyond the outermost one; nothing where
the outermost count is 0, for then the edge itself is the end of what was seen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cloud.serving.job import Rows
from shared.bundle.manifest import Manifest, Sketch

VALUES_MAX = 32 * 1024  # looked at

_FEATURES: Mapping[str, Callable[[Rows], Rows]] = {  # of [n, values], one number a row
    "input_mean": lambda flat: flat.mean(axis=1),
    "input_std": lambda flat: flat.std(axis=1),
}
"""As `shared.features` has them for the sketches of these names; of others, whole rows are needed."""


@dataclass(frozen=True, slots=True)
class _Range:
    feature: str
    least: float
    most: float


class InputRange:
    """Of one model. Costs some 20 us for a small image, and a few hundred at most, since of large
    inputs it looks at every n-th row and value; so ask it of what is logged only.
    """

    def __init__(self, manifest: Manifest, margin: float) -> None:
        self._ranges = tuple(
            _range_of(sketch, margin)
            for sketch in manifest.reference
            if sketch.feature in _FEATURES and sketch.edges
        )

    def marks(self, rows: Rows) -> tuple[str, ...]:
        """`out_of_range:<feature>` for each feature of any row of `rows` [n, *input shape]."""
        if not self._ranges:
            return ()
        flat = rows.reshape(len(rows), -1)
        if flat.size > VALUES_MAX:
            flat = _fewer(flat)
        return tuple(f"out_of_range:{one.feature}" for one in self._ranges if _outside(flat, one))


def _fewer(flat: Rows) -> Rows:
    """Every n-th row, as long as there is one; then every n-th value."""
    flat = flat[:: min(len(flat), -(-flat.size // VALUES_MAX))]
    return flat[:, :: -(-flat.size // VALUES_MAX)]


def _outside(flat: Rows, within: _Range) -> bool:
    values = _FEATURES[within.feature](flat)
    return not bool(np.all((values >= within.least) & (values <= within.most)))


def _range_of(sketch: Sketch, margin: float) -> _Range:
    first, last = sketch.edges[0], sketch.edges[-1]
    beyond = margin * (last - first)
    return _Range(
        sketch.feature,
        first - (beyond if sketch.counts[0] else 0.0),
        last + (beyond if sketch.counts[-1] else 0.0),
    )
