"""One tensor on the wire: JSON data (flat or nested) or binary data, to numpy and back."""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from shared.errors import Malformed, TooLarge
from shared.oip.datatypes import AnyArray, Datatype, datatype, datatype_of, numpy_dtype
from shared.oip.documents import Document, Parameter, kind_of, member, parameters

RANK_MAX = 8
ELEMENTS_MAX = 2**28  # refuses absurd shapes; the body's bound is the one that normally binds


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """`array` has the wire's shape; elements of BYTES are Python `bytes` in an object array."""

    name: str
    array: AnyArray
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def datatype(self) -> Datatype:
        return datatype_of(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


class BinarySection:
    """The bytes behind the JSON header; tensors take their share in the header's order."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._taken = 0

    def take(self, count: int, where: str) -> memoryview:
        left = len(self._content) - self._taken
        if not 0 <= count <= left:
            raise Malformed(
                f"{where}: binary_data_size is {count}; {left} bytes are left behind the header"
            )
        part = self._content[self._taken : self._taken + count]
        self._taken += count
        return part

    def end(self) -> None:
        """Nothing may be left over."""
        left = len(self._content) - self._taken
        if left:
            raise Malformed(
                f"{left} bytes follow the last tensor's binary data; "
                "check binary_data_size and Inference-Header-Content-Length"
            )


def read_tensor(document: Document, where: str, binary: BinarySection) -> Tensor:
    """One member of `inputs` or `outputs`. Raises `Malformed` or `TooLarge`."""
    name = member(document, "name", str, where)
    where = f"{where} {name[:60]!r}"
    kind = datatype(document.get("datatype"), where)
    shape = _shape(document, where)
    extra = parameters(document, where)
    if "shared_memory_region" in extra:
        raise Malformed(f"{where}: shared memory is not offered here; send the data in the body")
    if "binary_data_size" in extra:
        if "data" in document:
            raise Malformed(f"{where}: has both data and binary_data_size; send one of them")
        count = extra.pop("binary_data_size")
        if type(count) is not int:
            raise Malformed(f"{where}: binary_data_size is {kind_of(count)}; expected an integer")
        array = _from_binary(binary.take(count, where), kind, shape, where)
    else:
        array = _from_json(member(document, "data", list, where), kind, shape, where)
    return Tensor(name, array, extra)


def write_tensor(tensor: Tensor, *, binary: bool) -> tuple[Document, bytes]:
    """The JSON member, and the bytes to append to the binary section (empty for JSON data)."""
    extra = dict(tensor.parameters)
    document: Document = {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "shape": list(tensor.shape),
    }
    content = b""
    if binary:
        content = _to_binary(tensor)
        extra["binary_data_size"] = len(content)
    else:
        document["data"] = _to_json(tensor)
    if extra:
        document["parameters"] = extra
    return document, content


def _shape(document: Document, where: str) -> tuple[int, ...]:
    sizes = member(document, "shape", list, where)
    if not 1 <= len(sizes) <= RANK_MAX:
        raise Malformed(f"{where}: shape has {len(sizes)} sizes; expected 1 to {RANK_MAX}")
    for size in sizes:
        if type(size) is not int or size < 0:
            raise Malformed(f"{where}: shape {str(sizes)[:80]} must hold integers >= 0")
    if math.prod(max(size, 1) for size in sizes) > ELEMENTS_MAX:
        raise TooLarge(f"{where}: shape {str(sizes)[:80]} is over {ELEMENTS_MAX} elements")
    return tuple(sizes)


def _from_binary(
    content: memoryview, kind: Datatype, shape: tuple[int, ...], where: str
) -> AnyArray:
    count = math.prod(shape)
    if kind == "BYTES":
        return _bytes_elements(content, count, where).reshape(shape)
    dtype = numpy_dtype(kind)
    if len(content) != count * dtype.itemsize:
        raise Malformed(
            f"{where}: {kind}{list(shape)} takes {count * dtype.itemsize} bytes; "
            f"binary_data_size is {len(content)}"
        )
    if kind == "BOOL" and count and np.frombuffer(content, np.uint8).max() > 1:
        raise Malformed(f"{where}: BOOL data holds a byte that is neither 0 nor 1")
    return np.frombuffer(content, dtype).reshape(shape)


def _bytes_elements(content: memoryview, count: int, where: str) -> AnyArray:
    """BYTES: each element is its length as a little-endian uint32, then so many bytes."""
    elements, at = list[bytes](), 0
    while at < len(content):
        start = at + 4
        if start > len(content):
            raise Malformed(f"{where}: BYTES data is cut short inside a length, at byte {at}")
        at = start + struct.unpack_from("<I", content, at)[0]
        if at > len(content):
            raise Malformed(f"{where}: BYTES element {len(elements)} ends after its data")
        elements.append(bytes(content[start:at]))
    if len(elements) != count:
        raise Malformed(f"{where}: shape takes {count} BYTES elements; {len(elements)} were sent")
    return _objects(elements)


def _from_json(data: list[Any], kind: Datatype, shape: tuple[int, ...], where: str) -> AnyArray:
    flat = _flatten(data, shape, where)
    wanted: set[type] = (
        {str} if kind == "BYTES" else {bool} if kind == "BOOL"
        else {int, float} if kind.startswith("FP") else {int}
    )  # fmt: skip
    if wrong := {type(value) for value in flat} - wanted:
        example = next(value for value in flat if type(value) in wrong)
        raise Malformed(f"{where}: data holds {kind_of(example)}, which does not fit {kind}")
    try:
        if kind == "BYTES":
            return _objects([text.encode() for text in flat]).reshape(shape)
        with np.errstate(over="ignore"):
            array = np.array(flat, numpy_dtype(kind))
    except OverflowError as error:
        raise Malformed(f"{where}: data holds a number that does not fit {kind}") from error
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise Malformed(f"{where}: data holds a number that does not fit {kind}")
    return array.reshape(shape)


def _flatten(data: list[Any], shape: tuple[int, ...], where: str) -> list[Any]:
    """Row-major elements of data that is flat, or nested exactly as the shape says."""
    count = math.prod(shape)
    if not any(isinstance(item, list) for item in data):
        if len(data) != count:
            raise Malformed(
                f"{where}: shape {list(shape)} takes {count} elements; data has {len(data)}"
            )
        return data
    level = data
    for depth, size in enumerate(shape):
        if depth:
            if not all(isinstance(row, list) and len(row) == size for row in level):
                raise Malformed(
                    f"{where}: data is nested otherwise than shape {list(shape)}: at depth "
                    f"{depth} each array must have {size} items"
                )
            level = list(chain.from_iterable(level))
        elif len(level) != size:
            raise Malformed(f"{where}: shape starts with {size}; data has {len(level)} rows")
    return level


def _to_json(tensor: Tensor) -> list[Any]:
    flat: list[Any] = tensor.array.reshape(-1).tolist()
    if tensor.datatype != "BYTES":
        return flat
    try:
        return [str(element, "utf-8") for element in flat]
    except UnicodeDecodeError as error:
        raise Malformed(f"{tensor.name!r} is not UTF-8 text; ask for it as binary data") from error


def _to_binary(tensor: Tensor) -> bytes:
    if tensor.datatype != "BYTES":
        return tensor.array.astype(numpy_dtype(tensor.datatype), copy=False).tobytes()
    elements: list[bytes] = tensor.array.reshape(-1).tolist()
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


def _objects(elements: list[bytes]) -> AnyArray:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array
