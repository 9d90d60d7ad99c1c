import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Malformed
from shared.imaging.idx import parse_idx


def idx(shape: tuple[int, ...], content: bytes) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in shape)
    return bytes([0, 0, 8, len(shape)]) + sizes + content


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.randoms())
def test_round_trip(shape: list[int], random: object) -> None:
    content = bytes(number % 251 for number in range(math.prod(shape)))
    got = parse_idx(idx(tuple(shape), content), "a.idx")
    assert got.shape == tuple(shape)
    assert got.dtype == np.uint8
    assert got.tobytes() == content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an IDX file"),
        (b"\0\0\x08", "not an IDX file"),
        (b"\0\0\x0d\x01" + bytes(8), "not an IDX file of unsigned bytes"),
        (b"\x1f\x8b\x08\x01" + bytes(8), "not an IDX file"),
        (b"\0\0\x08\x03" + bytes(8), "cut short inside its header, at byte 12"),
        (idx((2, 2), b"abc"), "(2, 2), which is 4 bytes; 3 follow it"),
        (idx((2, 2), b"abcde"), "5 follow it"),
        (idx((2**32 - 1,) * 4, b"x"), "1 follow it"),
    ],
)
def test_hostile_files(content: bytes, said: str) -> None:
    with pytest.raises(Malformed) as refusal:
        parse_idx(content, "a.idx")
    assert str(refusal.value).startswith("a.idx: ")
    assert said in str(refusal.value)
