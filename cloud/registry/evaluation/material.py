"""What the variants of one evaluation are asked: data, rows drawn from it, boundary values."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cloud.registry.evaluation.data_set import EvaluationData
from cloud.registry.evaluation.inputs import Array, Domain, domain_of
from cloud.registry.evaluation.settings import EvaluationSettings
from cloud.registry.evaluation.shaking import boundary_inputs
from cloud.registry.evaluation.workspace import Workspace
from shared.bundle.reader import Bundle


@dataclass(frozen=True, slots=True)
class Asked:
    """Inputs in a file of the workspace, and which rows of the data they are."""

    path: str
    rows: NDArray[np.intp] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Material:
    data: EvaluationData
    words: str  # what it is, for the report
    domain: Domain
    whole: Asked
    drawn: Asked  # for noise, blur and brightness
    few: Asked  # for gradients
    boundary: str  # a file


def golden_data(bundle: Bundle) -> EvaluationData:
    """Where a gate names no data set: the golden samples, and the reference's winners as labels."""
    outputs = bundle.golden.outputs
    flat = outputs.reshape(len(outputs), -1)
    return EvaluationData(bundle.golden.inputs, flat.argmax(axis=1).astype(np.int64), ())


async def lay_out(
    data: EvaluationData, words: str, settings: EvaluationSettings, workspace: Workspace
) -> Material:
    """The same rows for the same seed and data."""
    domain = domain_of(data.inputs)
    rng = np.random.default_rng((settings.seed, 2))
    order = rng.permutation(data.rows)
    drawn = np.sort(order[: settings.robustness_rows])
    few = np.sort(order[: settings.fgsm_rows])
    boundary: Array = boundary_inputs(data.inputs.shape[1:], domain)
    return Material(
        data=data,
        words=words,
        domain=domain,
        whole=Asked(await workspace.put(data.inputs), np.arange(data.rows)),
        drawn=Asked(await workspace.put(data.inputs[drawn]), drawn),
        few=Asked(await workspace.put(data.inputs[few]), few),
        boundary=await workspace.put(boundary),
    )
