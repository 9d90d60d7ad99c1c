"""Zips of arrays that a pusher made by hand: what they unpack to is bounded before it is unpacked."""

import contextlib
import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import HybridgeError, Malformed, TooLarge
from shared.imaging.npz import unpack_npz

_MIB = 1024 * 1024


def _read(content: bytes) -> dict[str, bytes]:
    return unpack_npz(content, "f.npz", bytes_max=_MIB, arrays_max=4)


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_saves_is_read(save: Callable[..., None]) -> None:
    file = io.BytesIO()
    save(file, a=np.arange(3), b=np.zeros(9))
    found = _read(file.getvalue())
    assert sorted(found) == ["a.npy", "b.npy"]
    assert np.array_equal(np.load(io.BytesIO(found["a.npy"])), np.arange(3))


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_member_that_unpacks_to_more_than_it_states_takes_no_memory(method: int) -> None:
    content = bytearray(_zip({"a.npy": bytes(64 * _MIB)}, method))
    struct.pack_into("<I", content, content.rfind(b"PK\x01\x02") + 24, 10)  # it states 10 bytes
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="save it with numpy"):
            _read(bytes(content))
        assert tracemalloc.get_traced_memory()[1] < _MIB
    finally:
        tracemalloc.stop()


def test_a_directory_without_end_is_not_read() -> None:
    content = _zip({f"{number}.npy": b"" for number in range(20_000)})
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="20000 arrays; at most 4"):
            _read(content)
        assert tracemalloc.get_traced_memory()[1] < _MIB
    finally:
        tracemalloc.stop()


def test_a_directory_that_says_it_is_short_is_not_read_either() -> None:
    content = bytearray(_zip({f"{number}.npy": b"" for number in range(20_000)}))
    struct.pack_into("<HH", content, len(content) - 14, 1, 1)  # of 1 entry, it says
    with pytest.raises(TooLarge, match="at most 4"):
        _read(bytes(content))


def test_what_states_too_much_is_refused_unread() -> None:
    with pytest.raises(TooLarge, match="unpacks to 1048577 bytes; at most 1048576; use fewer"):
        _read(_zip({"a.npy": bytes(_MIB + 1)}, zipfile.ZIP_DEFLATED))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_stands_there_once() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", b"one")
        archive.writestr("a.npy", b"two")
    with pytest.raises(Malformed, match="twice"):
        _read(packed.getvalue())


def test_a_damaged_member_is_malformed() -> None:
    content = bytearray(_zip({"a.npy": bytes(1000)}, zipfile.ZIP_DEFLATED))
    at = content.index(b"a.npy") + 5
    content[at : at + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(zlib.error):
        zipfile.ZipFile(io.BytesIO(content)).read("a.npy")
    with pytest.raises(Malformed, match=r"not a readable \.npz"):
        _read(bytes(content))


_GOOD = _zip({"a.npy": bytes(50), "b.npy": b"x" * 50}, zipfile.ZIP_DEFLATED)


@given(st.integers(0, len(_GOOD) - 1), st.integers(0, 255))
def test_any_altered_byte_is_read_or_refused(at: int, byte: int) -> None:
    content = bytearray(_GOOD)
    content[at] = byte
    with contextlib.suppress(HybridgeError):
        assert sum(map(len, _read(bytes(content)).values())) <= _MIB
