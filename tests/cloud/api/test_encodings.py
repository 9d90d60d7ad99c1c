import contextlib
import gzip
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cloud.api.encodings import (
    ENCODINGS,
    Encoding,
    accepted,
    compress,
    decompress,
    encoding_of,
)
from cloud.api.problems import UnknownEncoding
from shared.errors import Malformed, Refused, TooLarge

TEXT = b"some text that repeats, some text that repeats. " * 20
BOMB = b"\0" * 2**24
PACKED: dict[Encoding, bytes] = {
    "gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT), "zstd": zstandard.compress(TEXT),
}  # fmt: skip
BOMBS: dict[Encoding, bytes] = {
    "gzip": gzip.compress(BOMB), "deflate": zlib.compress(BOMB), "zstd": zstandard.compress(BOMB),
}  # fmt: skip

every = pytest.mark.parametrize("encoding", ENCODINGS)


@every
def test_what_others_pack_is_unpacked_up_to_the_bound(encoding: Encoding) -> None:
    assert decompress(PACKED[encoding], encoding, len(TEXT)) == TEXT
    with pytest.raises(TooLarge, match=f"over {len(TEXT) - 1} bytes"):
        decompress(PACKED[encoding], encoding, len(TEXT) - 1)


@every
def test_what_we_pack_comes_back(encoding: Encoding) -> None:
    packed = compress(TEXT, encoding)
    assert packed is not None
    assert decompress(packed, encoding, len(TEXT)) == TEXT


@every
def test_what_hardly_shrinks_stays_as_it_is(encoding: Encoding) -> None:
    noise = PACKED["zstd"] + PACKED["gzip"][10:]
    assert compress(noise, encoding) is None


@every
def test_a_bomb_is_cut_off(encoding: Encoding) -> None:
    tracemalloc.start()
    with pytest.raises(TooLarge):
        decompress(BOMBS[encoding], encoding, 2**16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@every
@pytest.mark.parametrize("tail", [b"x", b"\0" * 8])
def test_bytes_behind_the_end_are_refused(encoding: Encoding, tail: bytes) -> None:
    with pytest.raises(Malformed):
        decompress(PACKED[encoding] + tail, encoding, len(TEXT))
    with pytest.raises(Malformed, match="follow its end"):
        decompress(PACKED[encoding] * 2, encoding, 2 * len(TEXT))


@every
@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_stream_that_is_cut_short_is_refused(encoding: Encoding, cut: int) -> None:
    with pytest.raises(Malformed):
        decompress(PACKED[encoding][:-cut], encoding, len(TEXT))


@every
@given(noise=st.binary(max_size=200), keep=st.integers(0, 60))
def test_noise_is_refused_or_bounded(encoding: Encoding, noise: bytes, keep: int) -> None:
    with contextlib.suppress(Refused):
        assert len(decompress(PACKED[encoding][:keep] + noise, encoding, 500)) <= 500


def test_a_zstd_window_that_takes_a_gigabyte_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(Malformed, match="zstd"):
        decompress(packer.compress(TEXT) + packer.flush(), "zstd", 2**20)


@pytest.mark.parametrize(
    ("said", "means"),
    [(None, None), ("", None), ("identity", None), ("GZIP", "gzip"), ("x-gzip", "gzip"), (" zstd ", "zstd")],
)  # fmt: skip
def test_encodings_by_name(said: str | None, means: str | None) -> None:
    assert encoding_of(said) == means


@pytest.mark.parametrize("said", ["br", "gzip, gzip", "gzip;q=1", "zip"])
def test_any_other_is_refused_by_name(said: str) -> None:
    with pytest.raises(UnknownEncoding, match="gzip, deflate"):
        encoding_of(said)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (None, None), ("", None), ("identity", None), ("br", None), ("gzip", "gzip"),
        ("deflate", "deflate"), ("gzip, deflate, br, zstd", "zstd"), ("gzip;q=0", None),
        ("zstd;q=0.1, gzip;q=0.5", "gzip"), ("*", "zstd"), ("zstd;q=0, *", "gzip"),
        ("*;q=0", None), ("gzip;q=nonsense", None), ("gzip;q=2", None), (",,;", None),
    ],
)  # fmt: skip
def test_what_a_client_takes(said: str | None, means: str | None) -> None:
    assert accepted(said) == means
