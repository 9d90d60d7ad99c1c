"""Between the protocol's tensors and the agent's samples and answers. Pure.

A request has N rows, each row is a sample of its own. A response has one element for each row:
`label` BYTES, `index` INT64, `confidence` FP32, `source` BYTES (edge, cloud, fused), `final` BOOL,
`sample_id` BYTES and `answered_by` BYTES (the version of the model that answered). For one row the
response's `parameters` say the same under `sample_id`, `source`, `final` and `model_version`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edge.answers import Answer
from shared.bundle.manifest import Manifest
from shared.errors import Malformed
from shared.oip.datatypes import AnyArray, datatype_of
from shared.oip.documents import Parameter
from shared.oip.response import InferResponse
from shared.oip.signature import Signature, TensorSpec
from shared.oip.tensors import Tensor

OUTPUTS = (
    TensorSpec("label", "BYTES", (-1,)),
    TensorSpec("index", "INT64", (-1,)),
    TensorSpec("confidence", "FP32", (-1,)),
    TensorSpec("source", "BYTES", (-1,)),
    TensorSpec("final", "BOOL", (-1,)),
    TensorSpec("sample_id", "BYTES", (-1,)),
    TensorSpec("answered_by", "BYTES", (-1,)),
)


@dataclass(frozen=True, slots=True)
class Wait:
    """How long the caller stays for final answers; 0 for not at all."""

    within_s: float


def signature(manifest: Manifest, engine: str) -> Signature:
    """What this device offers of a model: raw samples in, answers out (no logits)."""
    inputs = tuple(
        TensorSpec(tensor.name, datatype_of(np.dtype(tensor.dtype)), (-1, *tensor.shape))
        for tensor in manifest.inputs
    )
    return Signature(manifest.name, (manifest.version,), engine, inputs, OUTPUTS)


def wait_of(parameters: Mapping[str, Parameter], wait_ms_max: float) -> Wait:
    """`wait` ("now", the default, or "final") and `wait_ms` of an inference request.

    More than the full deadline is cut down to it. Raises `Malformed`.
    """
    mode = parameters.get("wait", "final" if "wait_ms" in parameters else "now")
    if mode not in ("now", "final"):
        raise Malformed(f"parameters.wait is {str(mode)[:40]!r}; send 'now' or 'final'")
    if mode == "now" and "wait_ms" in parameters:
        raise Malformed("parameters.wait is 'now', yet wait_ms is given; send wait='final'")
    return Wait(0.0) if mode == "now" else wait_ms(parameters.get("wait_ms"), wait_ms_max)


def wait_ms(value: Parameter | None, wait_ms_max: float) -> Wait:
    """`value` in milliseconds, or the full deadline for None; never more than that."""
    if value is None:
        return Wait(wait_ms_max / 1000)
    if isinstance(value, bool | str) or not 0 <= value < float("inf"):
        raise Malformed(f"wait_ms is {str(value)[:40]!r}; send milliseconds >= 0")
    return Wait(min(value, wait_ms_max) / 1000)


def version_of(manifest: Manifest, answers: Sequence[Answer]) -> str:
    """Of the model here that looked at the samples, by their first answers; another may have taken
    over since.
    """
    return next((a.model_version for a in answers if a.source == "edge"), manifest.version)


def response(
    manifest: Manifest, version: str, answers: Sequence[Answer], request_id: str
) -> InferResponse:
    """`version`: of the model here that looked at the samples."""
    labels = [label_of(manifest, answer) for answer in answers]
    columns: Mapping[str, AnyArray] = {
        "label": _texts(labels),
        "index": np.array([answer.label for answer in answers], np.int64),
        "confidence": np.array([answer.confidence for answer in answers], np.float32),
        "source": _texts([answer.source for answer in answers]),
        "final": np.array([answer.final for answer in answers], np.bool_),
        "sample_id": _texts([str(answer.id) for answer in answers]),
        "answered_by": _texts([answer.model_version for answer in answers]),
    }
    return InferResponse(
        model_name=manifest.name,
        model_version=version,
        outputs=tuple(Tensor(spec.name, columns[spec.name]) for spec in OUTPUTS),
        id=request_id,
        parameters=_single(answers[0]) if len(answers) == 1 else {},
    )


def label_of(manifest: Manifest, answer: Answer) -> str:
    """The label's name; its number where a newer model's label is unknown to this manifest."""
    known = 0 <= answer.label < len(manifest.labels)
    return manifest.labels[answer.label] if known else str(answer.label)


def _single(answer: Answer) -> Mapping[str, Parameter]:
    return {
        "sample_id": str(answer.id),
        "source": answer.source,
        "final": answer.final,
        "model_version": answer.model_version,
    }


def _texts(texts: Sequence[str]) -> AnyArray:
    array = np.empty(len(texts), object)
    array[:] = [text.encode() for text in texts]
    return array
