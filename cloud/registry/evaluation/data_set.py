"""Labelled evaluation data, read without trust: a zip of plain arrays, bounded, nothing pickled.

`inputs` [N, ...] of a plain number type, `labels` integers [N], maybe `slices` text [N].
"""

import math
import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shared.bundle.manifest import Manifest
from shared.errors import Malformed, TooLarge
from shared.imaging.npy import parse_npy
from shared.imaging.npz import unpack_npz

BYTES_MAX = 512 * 1024**2
ROWS_MAX = 2_000_000
"""Each takes 8 bytes for its label and up to 300 for its slice, whatever it has in the file: one bit
of a packed one may be eight rows of one byte.
"""
SLICES_MAX = 1000
_SLICE_LENGTH_MAX = 64
_ARRAYS_MAX = 8  # so few are read to say that they are too many
_MEMBERS = ({"inputs.npy", "labels.npy"}, {"inputs.npy", "labels.npy", "slices.npy"})
_TEXT_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00[\x00-\xff]{2}\{'descr': '<U([0-9]{1,3})', 'fortran_order': (?:True|False), "
    rb"'shape': \(([0-9]{1,9}),\), \} {0,64}\n"
)


@dataclass(frozen=True, slots=True)
class EvaluationData:
    """`slices` is () where the file has none."""

    inputs: NDArray[np.generic] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    slices: tuple[str, ...] = field(repr=False)

    @property
    def rows(self) -> int:
        return len(self.labels)


def parse_data_set(content: bytes, where: str, bytes_max: int = BYTES_MAX) -> EvaluationData:
    """What can be checked without a model. Raises `Malformed` or `TooLarge`."""
    arrays = _members(content, where, bytes_max)
    inputs = parse_npy(arrays["inputs.npy"], f"{where}: inputs")
    labels = parse_npy(arrays["labels.npy"], f"{where}: labels")
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise Malformed(
            f"{where}: labels are {labels.dtype}{list(labels.shape)}; save them as int64 [N]"
        )
    if not inputs.ndim or len(inputs) != len(labels):
        raise Malformed(
            f"{where}: inputs are {inputs.dtype}{list(inputs.shape)} for {len(labels)} labels; "
            "there must be one row for each"
        )
    if not len(labels):
        raise Malformed(f"{where}: holds no rows")
    if len(labels) > ROWS_MAX:
        raise TooLarge(f"{where}: {len(labels)} rows; at most {ROWS_MAX} are accepted")
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        row = int(np.argmin(np.isfinite(inputs.reshape(len(inputs), -1)).all(axis=1)))
        raise Malformed(f"{where}: inputs[{row}] holds NaN or infinity; remove that row")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= 2**31:
        raise Malformed(f"{where}: labels go from {low} to {high}; they count classes from 0")
    if low == high:
        raise Malformed(f"{where}: every label is {low}; figures need two classes or more")
    slices = _slices(arrays["slices.npy"], f"{where}: slices") if "slices.npy" in arrays else ()
    if slices and len(slices) != len(labels):
        raise Malformed(f"{where}: {len(slices)} slices for {len(labels)} labels; one for each")
    return EvaluationData(inputs, labels.astype(np.int64), slices)


def check_fits(
    data: EvaluationData, manifest: Manifest, where: str, rows_min: int, bytes_max: int = BYTES_MAX
) -> None:
    """Raises `Malformed` unless the model takes these inputs and knows these labels; `TooLarge`
    where its answers to all of them would have over `bytes_max`.
    """
    if data.rows < rows_min:
        raise Malformed(
            f"{where}: {data.rows} rows; at least {rows_min} are needed to say anything"
        )
    tensor = manifest.inputs[0]
    if data.inputs.dtype != np.dtype(tensor.dtype) or data.inputs.shape[1:] != tensor.shape:
        raise Malformed(
            f"{where}: inputs are {data.inputs.dtype}{list(data.inputs.shape)}; {manifest.name} "
            f"{manifest.version} takes {tensor.dtype}[N, {', '.join(map(str, tensor.shape))}]"
        )
    answers = data.rows * math.prod(manifest.outputs[0].shape) * 4
    if answers > bytes_max:
        raise TooLarge(
            f"{where}: {manifest.name} {manifest.version} answers {data.rows} rows with {answers} "
            f"bytes; at most {bytes_max} are held: use fewer rows"
        )
    if manifest.labels and (high := int(data.labels.max())) >= len(manifest.labels):
        raise Malformed(
            f"{where}: labels go up to {high}; {manifest.name} {manifest.version} has "
            f"{len(manifest.labels)} classes, from 0"
        )


def _members(content: bytes, where: str, bytes_max: int) -> dict[str, bytes]:
    found = unpack_npz(content, where, bytes_max=bytes_max, arrays_max=_ARRAYS_MAX)
    if set(found) not in _MEMBERS:
        raise Malformed(f"{where}: must hold `inputs`, `labels` and maybe `slices`, nothing else")
    return found


def _slices(content: bytes, where: str) -> tuple[str, ...]:
    """NPY 1.0 of `<U`: what `shared.imaging.npy` refuses, for it reads numbers alone."""
    header = _TEXT_HEADER.match(content)
    size, rows = (int(header[1]), int(header[2])) if header else (0, 0)
    start = header.end() if header else 0
    if not 0 < size <= _SLICE_LENGTH_MAX or len(content) - start != rows * size * 4:
        raise Malformed(
            f"{where}: must be text [N] of at most {_SLICE_LENGTH_MAX} characters, as "
            "np.array(names) gives it"
        )
    try:
        found = tuple(str(name) for name in np.frombuffer(content, f"<U{size}", offset=start))
    except ValueError as error:
        raise Malformed(f"{where}: holds what is no Unicode text") from error
    for name in set(found):
        if not name or not name.isprintable():
            raise Malformed(f"{where}: {name!a} is no name; use printable characters")
    if len(set(found)) > SLICES_MAX:
        raise Malformed(f"{where}: {len(set(found))} of them; at most {SLICES_MAX} are accepted")
    return found
