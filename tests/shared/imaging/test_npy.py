from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shared.errors import Malformed
from shared.imaging.npy import parse_npy


def saved(array: np.ndarray[Any, Any]) -> bytes:
    packed = BytesIO()
    np.save(packed, array)
    return packed.getvalue()


@given(
    hnp.arrays(
        dtype=st.sampled_from(["u1", "<i2", "<i8", "<f4", "?", ">f8"]).map(np.dtype),
        shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    )
)
def test_what_numpy_saves_is_read_back(array: np.ndarray[Any, Any]) -> None:
    got = parse_npy(saved(array), "a.npy")
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, array)


def test_fortran_order() -> None:
    array = np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3))
    np.testing.assert_array_equal(parse_npy(saved(array), "a.npy"), array)


def header(text: str) -> bytes:
    padded = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


def fields(descr: str = "|u1", order: str = "False", shape: str = "(2,)") -> bytes:
    return header(f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an NPY file"),
        (b"\x93NUMPY\x01\x00\x10", "not an NPY file"),
        (b"\x93NUMPY\x03\x00" + bytes(40), "not an NPY file of version 1.0"),
        (b"\x93NUMPY\x01\x00\xff\x00{}", "cut short inside its header"),
        (b"\x93NUMPY\x01\x00\xff\xff" + bytes(70_000), "the header is no plain one"),
        (fields(), "uint8[2], which is 2 bytes; 0 follow it"),
        (fields() + b"abc", "3 follow it"),
        (fields(shape="(10000000000000,)"), "0 follow it"),
        (fields(shape="(-1, -1)") + b"a", "none below 0"),
        (fields(shape="(True, 1)") + b"a", "none below 0"),
        (fields(shape="(1.0,)") + b"a", "none below 0"),
        (fields(shape="(1, 1, 1, 1, 1, 1, 1, 1, 1)") + b"a", "at most 8 sizes"),
        (fields(shape="[2]") + b"ab", "not one of plain numbers"),
        (fields(order="0") + b"ab", "not one of plain numbers"),
        (fields(descr="|O"), "'|O' is not a plain number"),
        (fields(descr="<U4"), "'<U4' is not a plain number"),
        (fields(descr="<c8"), "'<c8' is not a plain number"),
        (fields(descr="<f3"), "'<f3' is not one that numpy knows"),
        (header("[1, 2]"), "not one of plain numbers"),
        (header("__import__('os').abort()"), "header is damaged"),
        (header("(" * 118), "header is damaged"),
        (header("{[]: 1}"), "header is damaged"),
        (saved(np.array([{}], object)), "not a plain number"),
        (saved(np.zeros(2, [("a", "u1")])), "not one of plain numbers"),
    ],
)
def test_hostile_files(content: bytes, said: str) -> None:
    with pytest.raises(Malformed) as refusal:
        parse_npy(content, "a.npy")
    assert str(refusal.value).startswith("a.npy: ")
    assert said in str(refusal.value)


@settings(max_examples=200)
@given(st.data())
def test_whatever_the_bytes_the_refusal_is_ours(data: st.DataObject) -> None:
    content = bytearray(saved(np.zeros((2, 3), np.uint8)))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse_npy(bytes(content), "a.npy")
    except Malformed as error:
        assert str(error).startswith("a.npy: ")  # noqa: PT017 - most examples raise, some do not
