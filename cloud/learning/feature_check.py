"""Whether training and serving see the same sample and give the same answer. Pure.

A model that learned from inputs which serving prepares otherwise is worse than its figures, and
nothing else shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloud.learning.documents import FeatureCheck
from shared.bundle.manifest import Name, Version

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Checked:
    """N samples of one version, both ways."""

    training: Sequence[NDArray[np.generic]]
    """As training reads them."""
    serving: Sequence[NDArray[np.generic]]
    """As a worker decodes them."""
    here: Floats
    """[N, classes]: probabilities of the bundle's fp32 graph on what training reads."""
    served: Floats | None
    """[N, classes]: what the worker answers on the same tensors now, of whatever shape; None: nobody is to
    be asked."""
    stored_labels: NDArray[np.int64]
    """[N]: the winners that the worker gave when the samples came."""
    stored_confidence: Floats
    """[N]: and their probabilities."""


def check(
    model: Name, version: Version, now: float, seen: Checked, difference_max: float
) -> FeatureCheck:
    """`difference_max`: of a probability. Served variants are of lower precision than fp32, and near
    a tie that decides the winner; so another winner alone is no disagreement, a difference is.
    """
    differ = sum(
        not _same(one, other) for one, other in zip(seen.training, seen.serving, strict=True)
    )
    winners, count = seen.here.argmax(1), len(seen.training)
    rows = np.arange(count)
    known = (seen.stored_labels >= 0) & (seen.stored_labels < seen.here.shape[1])
    stored = seen.here[rows, np.where(known, seen.stored_labels, 0)] - seen.stored_confidence
    gaps = [np.where(known, np.abs(stored), 1.0)]
    others = winners != seen.stored_labels
    if seen.served is not None:
        is_alike = (
            seen.served.shape == seen.here.shape
        )  # else another graph, and wholly another answer
        gaps.append(np.abs(seen.here - seen.served).max(1) if is_alike else np.ones(count))
        others |= winners != seen.served.argmax(1) if is_alike else True
    gap = np.max(np.stack(gaps), 0) if count else np.zeros(0)
    # nan is a difference, and has no size
    largest = float(np.nan_to_num(gap, nan=1.0, posinf=1.0).max()) if count else 0.0
    agrees = differ == 0 and largest <= difference_max
    return FeatureCheck(
        model=model, version=version, at=now, samples=count, inputs_differ=differ,
        answers_differ=int(others.sum()), largest=largest, agrees=agrees,
        words=_words(differ, count, int(others.sum()), largest, difference_max, agrees=agrees),
    )  # fmt: skip


def _same(one: NDArray[np.generic], other: NDArray[np.generic]) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def _words(
    differ: int, count: int, others: int, largest: float, most: float, *, agrees: bool
) -> str:
    if agrees:
        return (
            f"{count} samples are the same bytes for training and serving; probabilities differ by "
            f"{largest:.3f} at most"
        )
    if differ:
        return (
            f"{differ} of {count} samples are other bytes for training than for serving: do both "
            "have the same bundle's dictionary? Train nothing before that is clear"
        )
    return (
        f"answers differ by {largest:.3f} of a probability, {most:g} is the bound; {others} of "
        f"{count} have another winner: does the worker serve this very version, and no other graph?"
    )
