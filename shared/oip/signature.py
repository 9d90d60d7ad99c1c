"""What a model takes and gives, the documents that say so, and a request held against it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shared.errors import Malformed, TooLarge, Unknown
from shared.oip.datatypes import Datatype
from shared.oip.documents import Document
from shared.oip.request import InferRequest
from shared.oip.tensors import Tensor

EXTENSIONS = ("binary_tensor_data",)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """`shape` has -1 for the free batch axis."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """`platform` names the engine: `onnxruntime`, `openvino`."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.outputs)


def server_metadata(name: str, version: str, extensions: Sequence[str] = EXTENSIONS) -> Document:
    return {"name": name, "version": version, "extensions": list(extensions)}


def model_metadata(signature: Signature) -> Document:
    return {
        "name": signature.name,
        "versions": list(signature.versions),
        "platform": signature.platform,
        "inputs": [_spec_document(spec) for spec in signature.inputs],
        "outputs": [_spec_document(spec) for spec in signature.outputs],
    }


def inputs_for(signature: Signature, request: InferRequest, rows_max: int) -> tuple[Tensor, ...]:
    """The request's inputs in the signature's order; each fits its spec, all have as many rows.

    Raises `Unknown` for a name that the model does not have, `TooLarge` for over `rows_max` rows,
    `Malformed` for the rest: missing, wrong datatype or shape, NaN or infinity.
    """
    sent = {tensor.name: tensor for tensor in request.inputs}
    known = {spec.name for spec in signature.inputs}
    for name in sent:
        if name not in known:
            raise Unknown(
                f"inputs: there is no {name[:60]!r}; {signature.name} takes "
                + ", ".join(spec.name for spec in signature.inputs)
            )
    for spec in signature.inputs:
        if spec.name not in sent:
            raise Malformed(f"inputs: {spec.name!r} is missing; send {_words(spec)}")
        _fits(sent[spec.name], spec)
    inputs = tuple(sent[spec.name] for spec in signature.inputs)
    rows = inputs[0].shape[0]
    for tensor in inputs:
        if tensor.shape[0] != rows:
            raise Malformed(
                f"inputs: {tensor.name!r} has {tensor.shape[0]} rows, {inputs[0].name!r} has {rows}"
            )
    if rows > rows_max:
        raise TooLarge(f"inputs: {rows} rows in one request; send at most {rows_max} at once")
    return inputs


def _fits(tensor: Tensor, spec: TensorSpec) -> None:
    if tensor.datatype != spec.datatype:
        raise Malformed(
            f"input {spec.name!r} is {tensor.datatype}{list(tensor.shape)}; send {_words(spec)}"
        )
    same = len(tensor.shape) == len(spec.shape) and all(
        got == expected or (expected == -1 and got > 0)
        for got, expected in zip(tensor.shape, spec.shape, strict=True)
    )
    if not same:
        raise Malformed(f"input {spec.name!r} has shape {list(tensor.shape)}; send {_words(spec)}")
    if tensor.array.dtype.kind == "f" and not np.isfinite(tensor.array).all():
        raise Malformed(f"input {spec.name!r} holds NaN or an infinity; send finite numbers")


def _words(spec: TensorSpec) -> str:
    sizes = ",".join("N" if size == -1 else str(size) for size in spec.shape)
    return f"{spec.datatype}[{sizes}]"


def _spec_document(spec: TensorSpec) -> Document:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}
