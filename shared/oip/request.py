"""An inference request: `decode_request` for servers, `encode_request` for clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.errors import Malformed, Unknown
from shared.oip.body import TENSORS_MAX, Encoded, join, no_repeats, read_tensors, split
from shared.oip.documents import Document, Parameter, flag, member, objects, parameters
from shared.oip.tensors import Tensor

ID_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """`binary` is None where the request leaves it to `binary_data_output`."""

    name: str
    binary: bool | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class InferRequest:
    """`outputs` empty: every output is wanted. `id` is the caller's, and goes back unchanged."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[RequestedOutput, ...] = ()
    id: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    binary_data_output: bool = False

    def wanted(self, offered: Sequence[str]) -> tuple[tuple[str, bool], ...]:
        """Names of the outputs to send back, each with: as binary data? Raises `Unknown`."""
        if not self.outputs:
            return tuple((name, self.binary_data_output) for name in offered)
        for output in self.outputs:
            if output.name not in offered:
                raise Unknown(
                    f"outputs: there is no {output.name[:60]!r}; the model has {', '.join(offered)}"
                )
        return tuple(
            (output.name, self.binary_data_output if output.binary is None else output.binary)
            for output in self.outputs
        )


def decode_request(
    body: bytes | bytearray | memoryview, header_length: str | None = None
) -> InferRequest:
    """Parse one request; binary inputs are read-only views into `body`, not copies.

    `header_length` is the text of `Inference-Header-Content-Length`, None where it is absent. The
    caller bounds the body. Raises `Malformed` and `TooLarge`.
    """
    document, binary = split(body, header_length)
    where = "request"
    identity = member(document, "id", str, where, "")
    if len(identity) > ID_CHARACTERS_MAX:
        raise Malformed(f"id has {len(identity)} characters; at most {ID_CHARACTERS_MAX}")
    extra = parameters(document, where)
    binary_output = flag(extra, "binary_data_output", where)
    extra.pop("binary_data_output", None)
    if "inputs" not in document:
        raise Malformed("request: inputs is missing; expected an array of tensors")
    inputs = read_tensors(objects(document, "inputs", where, TENSORS_MAX), "inputs", binary)
    outputs = tuple(
        _requested(output, f"outputs[{index}]")
        for index, output in enumerate(objects(document, "outputs", where, TENSORS_MAX))
    )
    no_repeats([output.name for output in outputs], "outputs")
    return InferRequest(inputs, outputs, identity, extra, binary_data_output=bool(binary_output))


def encode_request(request: InferRequest, *, binary: bool = True) -> Encoded:
    """`binary`: send every input as binary data rather than as JSON."""
    document: Document = {}
    if request.id:
        document["id"] = request.id
    extra = dict(request.parameters)
    if request.binary_data_output:
        extra["binary_data_output"] = True
    if extra:
        document["parameters"] = extra
    if request.outputs:
        document["outputs"] = [_request_document(output) for output in request.outputs]
    return join(document, "inputs", [(tensor, binary) for tensor in request.inputs])


def _requested(document: Document, where: str) -> RequestedOutput:
    name = member(document, "name", str, where)
    extra = parameters(document, where)
    for feature in ("classification", "shared_memory_region"):
        if extra.get(feature):
            raise Malformed(f"{where} {name[:60]!r}: {feature} is not offered here; leave it out")
    binary = flag(extra, "binary_data", where)
    extra.pop("binary_data", None)
    return RequestedOutput(name, binary, extra)


def _request_document(output: RequestedOutput) -> Document:
    extra = dict(output.parameters)
    if output.binary is not None:
        extra["binary_data"] = output.binary
    return {"name": output.name} | ({"parameters": extra} if extra else {})
