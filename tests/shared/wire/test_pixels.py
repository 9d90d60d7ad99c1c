import tracemalloc
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from shared.errors import HybridgeError, Malformed, TooLarge, Unknown
from shared.wire.envelope import Payload
from shared.wire.pixels import (
    TENSOR_BYTES_MAX,
    Decoder,
    Encoder,
    dictionary_id,
    grey4_levels,
    pack_grey4,
)

DICTIONARY = pack_grey4(np.random.default_rng(0).integers(0, 256, (64, 32), np.uint8))
CLAIMS_AN_EXABYTE = b"\x28\xb5\x2f\xfd\xe0" + (2**60).to_bytes(8, "little") + b"\x01\0\0"
TENSORS = hnp.arrays(np.uint8, hnp.array_shapes(max_dims=3, max_side=12))  # odd sizes too
IMAGE = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
Codec = Literal["raw", "zstd", "grey4"]


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@given(tensor=TENSORS)
def test_lossless_codecs_round_trip(codec: Codec, tensor: NDArray[np.uint8]) -> None:
    payload = Encoder(codec).encode(tensor)
    assert payload.dictionary == ""
    np.testing.assert_array_equal(Decoder().decode(payload), tensor)


@pytest.mark.parametrize("dictionary", [b"", DICTIONARY])
@given(tensor=TENSORS)
def test_grey4_rounds_to_the_nearest_of_sixteen(
    dictionary: bytes, tensor: NDArray[np.uint8]
) -> None:
    got = Decoder((dictionary,) if dictionary else ()).decode(
        Encoder("grey4", dictionary).encode(tensor)
    )
    assert got.dtype == np.uint8
    assert np.abs(got.astype(int) - tensor.astype(int)).max() <= 8
    assert set(np.unique(got) % 17) <= {0}


def test_every_grey_goes_to_its_nearest_level() -> None:
    greys = np.arange(256, dtype=np.uint8)
    levels = grey4_levels(greys)
    nearest = [int(np.abs(np.arange(16) * 17 - int(grey)).argmin()) for grey in greys]
    assert levels.tolist() == nearest


def test_the_dictionary_is_named_and_pays() -> None:
    image = np.random.default_rng(0).integers(0, 256, (64, 32), np.uint8)[:32]
    plain = Encoder("grey4").encode(image)
    trained = Encoder("grey4", DICTIONARY).encode(image)
    assert trained.dictionary == dictionary_id(DICTIONARY)
    assert len(trained.dictionary) == 16
    assert len(trained.data) < len(plain.data)


def test_lossless_codecs_use_no_dictionary() -> None:
    for codec in ("raw", "zstd"):
        payload = Encoder(codec, DICTIONARY).encode(IMAGE)
        assert payload.dictionary == ""
        np.testing.assert_array_equal(Decoder().decode(payload), IMAGE)


def test_an_unknown_codec_is_refused_at_both_ends() -> None:
    with pytest.raises(Unknown, match="payload codec 'webp'; there are raw, zstd and grey4"):
        Encoder("webp")
    with pytest.raises(Malformed, match="payload codec 'webp'"):
        Decoder().decode(replace(Encoder("raw").encode(IMAGE), codec="webp"))


def test_a_dictionary_that_is_not_here() -> None:
    payload = Encoder("grey4", DICTIONARY).encode(IMAGE)
    with pytest.raises(Unknown, match="is not loaded here; serve the cloud bundle"):
        Decoder((b"another" * 20,)).decode(payload)


def test_another_dictionary_is_no_key() -> None:
    payload = Encoder("grey4", DICTIONARY).encode(IMAGE)
    other = bytes(reversed(DICTIONARY))
    wrong = replace(payload, dictionary=dictionary_id(other))
    try:
        got = Decoder((other,)).decode(wrong)
    except HybridgeError:
        return
    assert got.shape == IMAGE.shape  # garbled perhaps, but bounded and of the right size


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (Payload("raw", "float32", (2,), bytes(8)), "payload of 'float32'"),
        (Payload("raw", "uint8", (3,), b"ab"), "holds 2 bytes; (3,) needs 3"),
        (Payload("raw", "uint8", (1,), b"ab"), "holds 2 bytes; (1,) needs 1"),
        (Payload("zstd", "uint8", (3,), b"ab"), "does not decompress"),
        (Payload("zstd", "uint8", (3,), b""), "does not decompress"),
        (Payload("grey4", "uint8", (3,), b"ab"), "does not decompress"),
        (Payload("zstd", "uint8", (3,), zstandard.compress(b"ab")), "holds 2 bytes; (3,)"),
        (Payload("grey4", "uint8", (5,), zstandard.compress(b"ab")), "holds 2 bytes; (5,) needs 3"),
        (Payload("raw", "uint8", (), b"a"), "has no shape"),
        (Payload("zstd", "uint8", (1,), CLAIMS_AN_EXABYTE), "states 1152921504606846976 bytes"),
        (Payload("grey4", "uint8", (1,), CLAIMS_AN_EXABYTE), "states 1152921504606846976 bytes"),
    ],
)
def test_payloads_that_do_not_fit(payload: Payload, said: str) -> None:
    with pytest.raises(Malformed) as refusal:
        Decoder().decode(payload)
    assert said in str(refusal.value)


def test_a_shape_over_the_bound_is_refused_before_anything_is_allocated() -> None:
    with pytest.raises(TooLarge, match=f"at most {TENSOR_BYTES_MAX}"):
        Decoder().decode(Payload("zstd", "uint8", (2**31 - 1,) * 8, b""))


@pytest.mark.parametrize("codec", ["zstd", "grey4"])
@pytest.mark.parametrize("is_stated", [True, False])
def test_a_bomb_never_grows_over_its_shape(codec: str, *, is_stated: bool) -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=is_stated).compress(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            Decoder().decode(Payload(codec, "uint8", (100,), bomb))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@given(st.sampled_from(["raw", "zstd", "grey4"]), st.binary(max_size=80))
def test_whatever_the_bytes_the_refusal_is_ours(codec: str, data: bytes) -> None:
    try:
        got = Decoder((DICTIONARY,)).decode(
            Payload(codec, "uint8", (4, 4), data, dictionary_id(DICTIONARY))
        )
    except HybridgeError:
        return
    assert got.shape == (4, 4)
