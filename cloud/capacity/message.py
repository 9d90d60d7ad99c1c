"""The requests of a load, built from what the server says of its model. Pure, given an `rng`.

What `tritonclient.http` sends where no outputs are named: tensors as binary behind the JSON header,
and all outputs to come so (Open Inference Protocol, binary tensor data extension).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cloud.capacity.load.order import Messages
from shared.config import in_words
from shared.errors import Malformed, TooLarge
from shared.oip.body import join
from shared.oip.datatypes import Datatype, numpy_dtype
from shared.oip.tensors import Tensor

BYTES_MAX: Final = 64 * 2**20
"""Of all messages together; each load generator holds them."""
_VARIED: Final = 4


class Input(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str = Field(max_length=256)
    datatype: Datatype
    shape: tuple[int, ...] = Field(min_length=1, max_length=8)


class Face(BaseModel):
    """What of a model's metadata matters here: `GET /v2/models/{name}`."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(max_length=256)
    versions: tuple[str, ...] = Field(default=(), max_length=1000)
    inputs: tuple[Input, ...] = Field(min_length=1, max_length=64)
    outputs: tuple[Input, ...] = Field(default=(), max_length=64)

    @property
    def version(self) -> str:
        return self.versions[-1] if self.versions else "?"


def read_face(document: bytes) -> Face:
    """Raises `Malformed`."""
    try:
        return Face.model_validate_json(document)
    except ValidationError as error:
        raise Malformed(f"the model's metadata: {in_words(error)}") from error


@dataclass(frozen=True, slots=True)
class Head:
    """What every message begins with."""

    host: str
    headers: Mapping[str, str]


def random_messages(face: Face, rows: int, head: Head, rng: np.random.Generator) -> Messages:
    """One request of random tensors, some bytes of which change from request to request.

    Bytes are varied where any value will do: in uint8 tensors, and in the low bits of floats.
    Raises `Malformed` for inputs whose values cannot be made up.
    """
    tensors = [Tensor(one.name, _random(one, rows, rng)) for one in face.inputs]
    message, body_at = _message(face, tensors, head)
    return Messages((message,), tuple(_free_bytes(tensors, body_at)))


def recorded_messages(face: Face, rows: int, head: Head, recorded: NDArray[Any]) -> Messages:
    """Requests of `rows` rows each from an array's rows in turn, for a model with one input.

    Raises `Malformed`, or `TooLarge` when they are more than `BYTES_MAX` bytes.
    """
    if len(face.inputs) != 1:
        names = ", ".join(one.name for one in face.inputs)
        raise Malformed(f"--input is one array; {face.name} takes {names}")
    (one,) = face.inputs
    dtype = numpy_dtype(one.datatype)
    fits = recorded.dtype == dtype and recorded.ndim == len(one.shape)
    if not fits or any(
        want not in (-1, size)
        for want, size in zip(one.shape[1:], recorded.shape[1:], strict=False)
    ):
        raise Malformed(
            f"--input is {recorded.dtype}{list(recorded.shape)}; {face.name}'s input {one.name} is "
            f"{one.datatype}{list(one.shape)}"
        )
    if len(recorded) < rows:
        raise Malformed(f"--input has {len(recorded)} rows; a request takes {rows}")
    made, total = [], 0
    for at in range(0, len(recorded) - rows + 1, rows):
        content = np.ascontiguousarray(recorded[at : at + rows])
        message, _ = _message(face, [Tensor(one.name, content)], head)
        total += len(message)
        if total > BYTES_MAX:
            raise TooLarge(f"--input makes over {BYTES_MAX} bytes of requests; give fewer rows")
        made.append(message)
    return Messages(tuple(made))


def _random(one: Input, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    if any(size <= 0 for size in one.shape[1:]):
        raise Malformed(f"input {one.name} is {list(one.shape)}: give --input, its sizes are free")
    shape = (rows, *one.shape[1:])
    dtype = numpy_dtype(one.datatype)
    if math.prod(shape) * dtype.itemsize > BYTES_MAX:
        raise TooLarge(f"{rows} rows of {one.name} are over {BYTES_MAX} bytes; give fewer --rows")
    if one.datatype == "UINT8":
        return rng.integers(0, 256, shape, np.uint8)
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    raise Malformed(
        f"input {one.name} is {one.datatype}: what its numbers stand for is unknown; give --input"
    )


def _message(face: Face, tensors: Sequence[Tensor], head: Head) -> tuple[bytes, int]:
    """The whole request, and where its binary section begins."""
    encoded = join(
        {"parameters": {"binary_data_output": True}}, "inputs", [(one, True) for one in tensors]
    )
    path = f"/v2/models/{quote(face.name, safe='')}/infer"
    lines = [f"POST {path} HTTP/1.1", f"Host: {head.host}", f"Content-Length: {len(encoded.body)}"]
    lines += [f"{name}: {value}" for name, value in {**encoded.headers, **head.headers}.items()]
    start = "\r\n".join([*lines, "", ""]).encode()
    return start + encoded.body, len(start) + (encoded.header_bytes or 0)


def _free_bytes(tensors: Sequence[Tensor], begins: int) -> list[int]:
    """Positions of up to `_VARIED` bytes of a message whose value does not matter."""
    free: list[int] = []
    for one in tensors:
        dtype = one.array.dtype
        low = {"u1": 1, "f2": 1, "f4": 2, "f8": 4}.get(
            dtype.str[1:], 0
        )  # of an element, its first bytes
        for element in range(min(one.array.size, _VARIED) if low else 0):
            free += [begins + element * dtype.itemsize + byte for byte in range(low)]
        begins += one.array.size * dtype.itemsize
    return free[:_VARIED]
