"""Packing differences and adding them in whatever pieces."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shared.delta.differences import Differences, pack


class Fill:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def __call__(self, part: NDArray[np.uint8]) -> None:
        part[:] = np.frombuffer(self.content[: len(part)], np.uint8)
        self.content = self.content[len(part) :]


def added(old: bytes, codes: bytes, others: bytes, pieces: list[int]) -> bytes:
    out, was = np.empty(len(old), np.uint8), np.frombuffer(old, np.uint8)
    fills = Fill(codes), Fill(others)
    differences = Differences(*fills, len(old))
    at = 0
    for piece in [*pieces, len(old)]:
        differences.add(out[at : at + piece], was[at : at + piece])
        at += piece
    assert [fill.content for fill in fills] == [b"", b""]
    return out.tobytes()


def test_four_in_a_byte_the_first_one_lowest() -> None:
    codes, others = pack(np.array([0, 1, 255, 7, 1], np.uint8))
    assert (codes, others) == (bytes([0b11_10_01_00, 0b01]), b"\x07")


@given(st.binary(max_size=200), st.lists(st.integers(0, 50), max_size=5), st.data())
def test_old_and_difference_are_new(old: bytes, pieces: list[int], data: st.DataObject) -> None:
    small = st.sampled_from([0, 1, 255])
    element = st.one_of(small, small, st.integers(0, 255))
    steps = np.array(data.draw(st.lists(element, min_size=len(old), max_size=len(old))), np.uint8)
    new = (np.frombuffer(old, np.uint8) + steps).tobytes()
    assert added(old, *pack(steps), pieces) == new


@pytest.mark.parametrize("size", [(1 << 18) - 1, 1 << 18, (1 << 19) + 5])
def test_blocks_meet(size: int) -> None:
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 6, size).astype(np.uint8)
    assert added(bytes(size), *pack(steps), [size // 3]) == steps.tobytes()
