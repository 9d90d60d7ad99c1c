"""Models that name files as their weights are refused: engines would read them, wherever they are.

An ONNX tensor may lie outside of its model (`external_data`). Of a model that is handed over as bytes
onnxruntime and OpenVINO look for such files in the working directory and below: whoever makes a
bundle could have a device, or the registry's evaluator, take its own private keys for weights, and
read them out of the answers. A bundle's graphs carry all of their weights.

Pure. Field numbers: onnx.proto3 of ONNX 1.23. Wire format: protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from shared.errors import Malformed

_KEY: Final = b"location"
"""Of the entry that names the file. Without it, as in nearly all models, nothing is walked."""
_INSIDE: Final[Mapping[str, Mapping[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse",
    },
    "sparse": {1: "tensor", 2: "tensor"},
}  # fmt: skip
"""Where tensors can be: of each message, the fields that lead to one."""
_EXTERNAL_DATA, _DATA_LOCATION, _EXTERNAL = 13, 14, 1
_FIELDS_MAX: Final = 1_000_000  # walked in a second or two


class _NoProtobufError(Exception):
    """Not a protobuf, or over the bounds."""


def refuse_external_data(artifact: bytes, where: str) -> None:
    """Raises `Malformed` for a graph that names files, or may: one that cannot be walked."""
    if _KEY not in artifact:
        return
    try:
        names_files = _names_files(artifact)
    except _NoProtobufError:
        raise Malformed(f"{where}: no ONNX graph that can be read; rebuild the bundle") from None
    if names_files:
        raise Malformed(
            f"{where}: keeps weights in files of their own, which is not done here; export it with "
            "all of its weights inside"
        )


def _names_files(content: bytes) -> bool:
    pending = [("model", 0, len(content))]
    left = _FIELDS_MAX
    while pending:
        kind, start, end = pending.pop()
        inside = _INSIDE.get(kind, {})
        for number, value, at, until in _fields(content, start, end):
            left -= 1
            if left < 0:
                raise _NoProtobufError
            if kind == "tensor" and (
                number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value == _EXTERNAL)
            ):
                return True
            if number in inside and until >= 0:
                pending.append((inside[number], at, until))
    return False


def _fields(content: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, value (of a varint), first byte and byte after the last (-1: it has no length)."""
    while at < end:
        tag, at = _varint(content, at, end)
        tag &= 2**32 - 1  # as readers keep it
        match tag & 7:
            case 0:
                value, at = _varint(content, at, end)
                yield tag >> 3, value, at, -1
            case 1:  # eight bytes
                at += 8
                yield tag >> 3, 0, at, -1
            case 5:  # four bytes
                at += 4
                yield tag >> 3, 0, at, -1
            case 2:
                length, at = _varint(content, at, end)
                if length > end - at:
                    raise _NoProtobufError
                yield tag >> 3, 0, at, at + length
                at += length
            case _:
                raise _NoProtobufError
    if at != end:
        raise _NoProtobufError


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:  # ten bytes, of which readers keep 64 bits
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise _NoProtobufError
