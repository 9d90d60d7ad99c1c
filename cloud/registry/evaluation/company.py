"""A bundle's variants held against each other, and against the stored fp32 reference. Pure."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cloud.registry.evaluation.figures import REFERENCE, Boundary, Pair
from cloud.registry.evaluation.shaking import BOUNDARIES
from cloud.registry.evaluation.taking import Taking
from shared.engines.parity import Parity, compare

Floats = NDArray[np.float32]
_EXACTEST_FIRST = ("fp32", "bf16", "fp16", "int8")


def compare_all(takings: Sequence[Taking]) -> tuple[Pair, ...]:
    """Of one bundle. Fills in each one's metrics `parity` and `boundary`."""
    answered = [taking for taking in takings if taking.golden is not None]
    pairs = [_with_reference(taking) for taking in answered]
    pairs += [_with_other(one, other) for one, other in combinations(answered, 2)]
    for taking in answered:
        mine = [
            pair.agreement for pair in pairs if taking.variant.key in (pair.variant, pair.other)
        ]
        taking.metrics["parity"] = min(mine)
    _boundaries([taking for taking in takings if taking.boundary is not None])
    return tuple(pairs)


def _with_reference(taking: Taking) -> Pair:
    golden = taking.manifest.golden
    assert taking.golden is not None
    parity = compare(taking.golden, taking.bundle.golden.outputs, golden, taking.variant.precision)
    return _pair(taking.variant.key, REFERENCE, parity)


def _with_other(one: Taking, other: Taking) -> Pair:
    """Each may be off by its own tolerance, and so both together by the sum."""
    golden = one.manifest.golden
    assert one.golden is not None
    assert other.golden is not None
    precisions = one.variant.precision, other.variant.precision
    found = compare(one.golden, other.golden, golden, precisions[0])
    parity = Parity(
        difference_max=found.difference_max,
        tolerance=sum(golden.tolerance[precision] for precision in precisions),
        agreement=found.agreement,
        agreement_min=max(0.0, sum(golden.agreement_min[p] for p in precisions) - 1),
    )
    return _pair(one.variant.key, other.variant.key, parity)


def _pair(variant: str, other: str, parity: Parity) -> Pair:
    finite = np.isfinite(parity.difference_max)
    return Pair(
        variant=variant,
        other=other,
        difference_max=parity.difference_max if finite else None,
        agreement=parity.agreement,
        within=parity.passes,
    )


def _boundaries(takings: Sequence[Taking]) -> None:
    if not takings:
        return
    reference = min(takings, key=lambda taking: _EXACTEST_FIRST.index(taking.variant.precision))
    assert reference.boundary is not None
    winners = _winners(reference.boundary)
    for taking in takings:
        assert taking.boundary is not None
        finite = [bool(np.isfinite(answer).all()) for answer in taking.boundary]
        theirs = _winners(taking.boundary)
        found = tuple(
            Boundary(
                name=name,
                finite=finite[at],
                agrees=finite[at] and bool(theirs[at] == winners[at]),
            )
            for at, name in enumerate(BOUNDARIES)
        )
        taking.robustness = taking.robustness.model_copy(update={"boundary": found})
        taking.metrics["boundary"] = sum(one.agrees for one in found) / len(found)


def _winners(answers: Floats) -> NDArray[np.intp]:
    return np.asarray(answers.reshape(len(answers), -1).argmax(axis=1), np.intp)
