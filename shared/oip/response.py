"""An inference response: `encode_response` for servers, `decode_response` for clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.oip.body import TENSORS_MAX, Encoded, join, read_tensors, split
from shared.oip.documents import Document, Parameter, member, objects, parameters
from shared.oip.tensors import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class InferResponse:
    model_name: str
    model_version: str
    outputs: tuple[Tensor, ...]
    id: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


def encode_response(
    response: InferResponse, wanted: Sequence[tuple[str, bool]] | None = None
) -> Encoded:
    """`wanted`: names of `outputs`, in order, each with: as binary data? None: all, as JSON.

    Raises `Malformed` for what JSON cannot carry: NaN, infinities, bytes that are no UTF-8.
    """
    document: Document = {
        "model_name": response.model_name,
        "model_version": response.model_version,
    }
    if response.id:
        document["id"] = response.id
    if response.parameters:
        document["parameters"] = dict(response.parameters)
    by_name = {tensor.name: tensor for tensor in response.outputs}
    chosen = [(name, False) for name in by_name] if wanted is None else wanted
    return join(document, "outputs", [(by_name[name], binary) for name, binary in chosen])


def decode_response(
    body: bytes | bytearray | memoryview, header_length: str | None = None
) -> InferResponse:
    """Parse one response; binary outputs are views into `body`. Raises `Malformed`, `TooLarge`."""
    document, binary = split(body, header_length)
    where = "response"
    return InferResponse(
        model_name=member(document, "model_name", str, where),
        model_version=member(document, "model_version", str, where, ""),
        id=member(document, "id", str, where, ""),
        parameters=parameters(document, where),
        outputs=read_tensors(objects(document, "outputs", where, TENSORS_MAX), "outputs", binary),
    )
