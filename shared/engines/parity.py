"""Does an opened variant do what the bundle says? Its inputs and outputs, then the golden samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.bundle.manifest import Golden, Manifest, Precision, Tensor
from shared.bundle.reader import GoldenSamples
from shared.engines.batches import described
from shared.engines.engine import Session, TensorInfo
from shared.errors import Malformed

_BATCH_MAX = 8


@dataclass(frozen=True, slots=True)
class Parity:
    """How far a variant's answers lie from the fp32 reference, and how far they may."""

    difference_max: float
    tolerance: float
    agreement: float  # share of samples with the reference's winner
    agreement_min: float

    @property
    def passes(self) -> bool:
        return self.difference_max <= self.tolerance and self.agreement >= self.agreement_min

    def __str__(self) -> str:
        return (
            f"largest difference {self.difference_max:.4g} (tolerance {self.tolerance:g}), "
            f"same winner on {self.agreement:.1%} (at least {self.agreement_min:.1%})"
        )


def check_graph(manifest: Manifest, session: Session, where: str) -> None:
    """Raises `Malformed` unless the graph has exactly the inputs and outputs of the manifest."""
    for kind, stated, found in (
        ("input", manifest.inputs, session.inputs),
        ("output", manifest.outputs, session.outputs),
    ):
        if len(stated) != len(found):
            raise Malformed(
                f"{where}: the graph has {len(found)} {kind}s, the bundle says {len(stated)}; "
                "rebuild the bundle"
            )
        for number, (said, got) in enumerate(zip(stated, found, strict=True)):
            wanted = _info(said)
            if (got.name, got.dtype, got.shape) != (wanted.name, wanted.dtype, wanted.shape):
                raise Malformed(
                    f"{where}: {kind} '{got.name}' is {described(got)}, the bundle says "
                    f"'{said.name}' {described(wanted)}; rebuild the bundle or fix {kind}s[{number}]"
                )


def measure_parity(
    session: Session,
    samples: GoldenSamples,
    golden: Golden,
    precision: Precision,
    batch_max: int = _BATCH_MAX,
) -> Parity:
    """Run every golden sample in small batches; NaN counts as infinitely far."""
    size = min(batch_max, _BATCH_MAX)
    answers = np.concatenate(
        [
            session.run(samples.inputs[start : start + size])
            for start in range(0, len(samples.inputs), size)
        ]
    )
    return compare(answers, samples.outputs, golden, precision)


def compare(
    answers: NDArray[np.float32],
    reference: NDArray[np.float32],
    golden: Golden,
    precision: Precision,
) -> Parity:
    """Both [N, classes]."""
    distance = np.abs(answers - reference)
    difference = float(distance.max()) if np.isfinite(distance).all() else float("inf")
    same = answers.argmax(axis=-1) == reference.argmax(axis=-1)
    return Parity(
        difference_max=difference,
        tolerance=golden.tolerance[precision],
        agreement=float(same.mean()),
        agreement_min=golden.agreement_min[precision],
    )


def _info(tensor: Tensor) -> TensorInfo:
    return TensorInfo(tensor.name, tensor.dtype, (None, *tensor.shape))
