"""The protocol's datatypes beside numpy's. Binary tensor data is little-endian and row-major."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed

AnyArray = NDArray[Any]

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "BYTES",
]  # fmt: skip

_NUMPY: dict[Datatype, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BYTES": np.dtype(object),
}
_BY_KIND: dict[tuple[str, int], Datatype] = {
    (dtype.kind, dtype.itemsize): name for name, dtype in _NUMPY.items() if name != "BYTES"
}


def datatype(text: object, where: str) -> Datatype:
    """Check a datatype's name as it came over the wire; raises `Malformed`."""
    for name in _NUMPY:
        if name == text:
            return name
    raise Malformed(
        f"{where}: datatype is {str(text)[:40]!r}; this server reads {', '.join(_NUMPY)}"
    )


def numpy_dtype(name: Datatype) -> np.dtype[Any]:
    """The numpy dtype (little-endian) of one element; `object`, holding bytes, for BYTES."""
    return _NUMPY[name]


def datatype_of(dtype: np.dtype[Any]) -> Datatype:
    """The protocol's name of a numpy dtype. Raises `Malformed` for one that it does not have."""
    if dtype.kind == "O":
        return "BYTES"
    try:
        return _BY_KIND[dtype.kind, dtype.itemsize]
    except KeyError as error:
        raise Malformed(f"dtype {dtype} has no datatype in this protocol") from error
