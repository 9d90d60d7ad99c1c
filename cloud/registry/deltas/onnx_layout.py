"""Where in an ONNX file each weight lies: a walk over the protobuf, without the onnx package.

Wire format: protobuf.dev/programming-guides/encoding. Field numbers: onnx.proto3 of ONNX 1.23.
The file is somebody's upload: fields and depth are bounded, and what is no protobuf has no layout.
"""

from collections.abc import Iterator
from dataclasses import dataclass

TENSORS_MAX = 20_000
_FIELDS_MAX = 1_000_000  # walked in a second or two
_DEPTH_MAX = 8  # of graphs within graphs
_NAME_BYTES_MAX = 500  # of a longer one the beginning: a path repeats what is above it
_WEIGHT_BYTES_MIN = 32  # below it an operation costs more than it saves

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_OUTPUT, _NODE_ATTRIBUTE = 2, 5
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS = 5, 6, 10, 11
_TENSOR_NAME = 8
_TENSOR_DATA = (4, 9, 10)  # float_data, raw_data, double_data


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor's bytes are `start` to before `end` of the file. `name` is unique in it."""

    name: bytes
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def weights(content: bytes) -> list[Weight]:
    """In the file's order. Empty when it is no ONNX file, or one that is over the bounds."""
    try:
        found = list(_Walk(content).model())
    except _NoLayoutError:
        return []
    unique = {weight.name: weight for weight in reversed(found)}
    return sorted(unique.values(), key=lambda weight: weight.start)


class _NoLayoutError(Exception):
    """Not a protobuf, or over the bounds."""


class _Walk:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._fields_left = _FIELDS_MAX
        self._tensors_left = TENSORS_MAX

    def model(self) -> Iterator[Weight]:
        for number, start, end in self._messages(0, len(self._content)):
            if number == _MODEL_GRAPH:
                yield from self._graph(start, end, b"", _DEPTH_MAX)

    def _graph(self, start: int, end: int, path: bytes, depth: int) -> Iterator[Weight]:
        if not depth:
            raise _NoLayoutError
        for number, at, until in self._messages(start, end):
            if number == _GRAPH_INITIALIZER:
                yield from self._tensor(at, until, path)
            elif number == _GRAPH_NODE:
                yield from self._node(at, until, path, depth)

    def _node(self, start: int, end: int, path: bytes, depth: int) -> Iterator[Weight]:
        """A constant is named by its node's first output: such tensors have no names."""
        output = b""
        attributes = []
        for number, at, until in self._messages(start, end):
            if number == _NODE_OUTPUT and not output:
                output = self._name(at, until)
            elif number == _NODE_ATTRIBUTE:
                attributes.append((at, until))
        for index, (first, last) in enumerate(attributes):
            inside = b"%b/%b/%d" % (path, output, index)
            for number, at, until in self._messages(first, last):
                if number in (_ATTRIBUTE_TENSOR, _ATTRIBUTE_TENSORS):
                    yield from self._tensor(at, until, inside)
                elif number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
                    yield from self._graph(at, until, inside, depth - 1)

    def _tensor(self, start: int, end: int, path: bytes) -> Iterator[Weight]:
        name = b""
        data = (0, 0)
        for number, at, until in self._messages(start, end):
            if number == _TENSOR_NAME:
                name = self._name(at, until)
            elif number in _TENSOR_DATA:
                data = (at, until)
        if data[1] - data[0] >= _WEIGHT_BYTES_MIN:
            self._tensors_left -= 1
            if self._tensors_left < 0:
                raise _NoLayoutError
            yield Weight(b"%b/%b" % (path, name), *data)

    def _name(self, start: int, end: int) -> bytes:
        return self._content[start : min(end, start + _NAME_BYTES_MAX)]

    def _messages(self, at: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Fields that have a length: number, first byte, byte after the last."""
        while at < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise _NoLayoutError
            tag, at = self._varint(at, end)
            match tag & 7:
                case 0:  # a varint
                    _, at = self._varint(at, end)
                case 1:  # eight bytes
                    at += 8
                case 5:  # four bytes
                    at += 4
                case 2:  # a length, and so many bytes
                    length, at = self._varint(at, end)
                    if length > end - at:
                        raise _NoLayoutError
                    yield tag >> 3, at, at + length
                    at += length
                case _:
                    raise _NoLayoutError
        if at != end:
            raise _NoLayoutError

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end and shift < 64:
            byte = self._content[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at
        raise _NoLayoutError
