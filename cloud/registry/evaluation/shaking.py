"""Inputs as a bad day delivers them: noise, blur, brighter, darker, and values at the boundary.

Deterministic: row i is changed by (seed, kind, i) alone, whatever batch it comes in.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloud.registry.evaluation.inputs import Array, Domain, Kind

KINDS: tuple[Kind, ...] = ("noise", "blur", "brighter", "darker")
BOUNDARIES = ("all least", "all greatest", "alternating")


@dataclass(frozen=True, slots=True)
class Strengths:
    """Noise and brightness as shares of the inputs' range, blur in pixels."""

    noise: float
    blur: float
    brightness: float


def shaken(
    rows: Array, first_row: int, kind: Kind, strengths: Strengths, domain: Domain, seed: int
) -> Array:
    """A batch [N, ...] changed; `first_row` is its first row's number in the data."""
    values = rows.astype(np.float32)
    match kind:
        case "noise":
            sigma = strengths.noise * domain.span
            changed = values + np.stack([
                _noise(values.shape[1:], seed, first_row + i) * np.float32(sigma)
                for i in range(len(values))
            ])  # fmt: skip
        case "blur":
            assert domain.image_axes is not None
            changed = values
            for axis in domain.image_axes:
                changed = _blurred(changed, axis, strengths.blur)
        case "brighter":
            changed = values + np.float32(strengths.brightness * domain.span)
        case "darker":
            changed = values - np.float32(strengths.brightness * domain.span)
    return domain.clipped(changed)


def boundary_inputs(shape: tuple[int, ...], domain: Domain) -> Array:
    """[3, *shape], as `BOUNDARIES` names them; alternating runs along the flattened row."""
    size = int(np.prod(shape))
    rows = np.empty((len(BOUNDARIES), size), np.float64)  # whole numbers up to 2**53 stay whole
    rows[0], rows[1] = domain.low, domain.high
    rows[2] = np.where(np.arange(size) % 2, domain.high, domain.low)
    return rows.reshape(len(BOUNDARIES), *shape).astype(domain.dtype)


def _noise(shape: tuple[int, ...], seed: int, row: int) -> NDArray[np.float32]:
    return np.random.default_rng((seed, row)).standard_normal(shape, np.float32)


def _blurred(values: NDArray[np.float32], axis: int, sigma: float) -> NDArray[np.float32]:
    """Gaussian of up to four sigmas, edges repeated. numpy alone: scipy costs its importer 2 s."""
    radius = min(max(1, round(4 * sigma)), values.shape[axis])
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2).astype(np.float32)
    kernel /= kernel.sum()
    around = [(radius, radius) if at == axis else (0, 0) for at in range(values.ndim)]
    padded = np.pad(values, around, mode="edge")
    length = values.shape[axis]
    total = np.zeros_like(values)
    for offset, weight in enumerate(kernel):
        total += weight * np.take(padded, np.arange(offset, offset + length), axis=axis)
    return total
