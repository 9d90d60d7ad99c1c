import struct
import subprocess
import sys
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shared.errors import HybridgeError, Malformed, TooLarge
from shared.imaging import decode
from shared.imaging.decode import decode_sample, decode_samples
from tests.shared.imaging.test_idx import idx
from tests.shared.imaging.test_npy import saved

SHAPE = (6, 5)
PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
PIXELS = np.arange(30, dtype=np.uint8).reshape(SHAPE) * 8


def encoded(pixels: np.ndarray[Any, Any], kind: str = "PNG", mode: str | None = None) -> bytes:
    image = Image.fromarray(pixels)
    packed = BytesIO()
    (image if mode is None else image.convert(mode)).save(packed, kind)
    return packed.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and has no pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    return b"\x89PNG\r\n\x1a\n" + chunk + PNG_END


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P"])
def test_a_png_of_any_usual_mode_becomes_grey(mode: str) -> None:
    got = decode_samples(encoded(PIXELS, mode=mode), "a.png", SHAPE)
    assert got.shape == (1, *SHAPE)
    assert got.dtype == np.uint8
    if mode != "P":  # a palette rounds
        np.testing.assert_array_equal(got[0], PIXELS)


def test_a_jpeg_loses_little() -> None:
    got = decode_sample(encoded(np.full(SHAPE, 100, np.uint8), "JPEG"), "a.jpg", SHAPE)
    assert np.abs(got.astype(int) - 100).max() <= 2


@pytest.mark.parametrize("shape", [SHAPE, (1, *SHAPE), (4, *SHAPE)])
def test_npy_and_idx_hold_one_or_many(shape: tuple[int, ...]) -> None:
    pixels = np.resize(PIXELS, shape)
    for content in (saved(pixels), idx(shape, pixels.tobytes())):
        got = decode_samples(content, "a", SHAPE)
        np.testing.assert_array_equal(got, pixels.reshape(-1, *SHAPE))


def test_one_where_one_is_expected() -> None:
    np.testing.assert_array_equal(decode_sample(saved(PIXELS), "a.npy", SHAPE), PIXELS)
    with pytest.raises(Malformed, match=r"a\.npy: holds 2 samples; one is expected"):
        decode_sample(saved(np.stack([PIXELS, PIXELS])), "a.npy", SHAPE)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"GIF89a" + bytes(40), "neither PNG, JPEG, NPY nor IDX (.bin, first bytes 47494638)"),
        (encoded(PIXELS[:, :4]), "the image is 6 high and 4 wide, the model takes [6, 5]; crop"),
        (encoded(PIXELS)[:60], "cut short, its end marker is missing"),
        (encoded(PIXELS)[:-5], "cut short, its end marker is missing"),
        (encoded(PIXELS, "JPEG")[:200], "cut short, its end marker is missing"),
        (encoded(PIXELS, "JPEG")[:-2], "cut short, its end marker is missing"),
        (encoded(PIXELS)[:30] + bytes(9) + encoded(PIXELS)[39:], "damaged: "),
        (b"\x89PNG\r\n\x1a\n" + PNG_END, "damaged: "),
        (b"\xff\xd8\xff" + bytes(50) + b"\xff\xd9", "damaged: "),
        (encoded(PIXELS.astype(np.uint16) * 200), "pixel mode I;16; save it as 8-bit grey or RGB"),
        (saved(PIXELS.astype(np.float32)), "dtype is float32; send raw uint8 pixels"),
        (saved(PIXELS.astype(np.int64)), "dtype is int64; send raw uint8 pixels"),
        (saved(np.full(SHAPE, np.nan)), "holds NaN or infinity"),
        (saved(np.full(SHAPE, np.inf, np.float32)), "holds NaN or infinity"),
        (saved(np.array([{}], object)), "not a plain number"),
        (saved(PIXELS[:5]), "holds [5, 5], the model takes [6, 5] or [N, 6, 5]"),
        (saved(PIXELS[:0].reshape(0, *SHAPE)), "holds no samples"),
        (saved(np.zeros((1, 1, *SHAPE), np.uint8)), "holds [1, 1, 6, 5]"),
        (idx((2, 3), b"abcdef"), "holds [2, 3], the model takes"),
        (idx(SHAPE, PIXELS.tobytes()[:-1]), "29 follow it"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(content: bytes, said: str) -> None:
    with pytest.raises(Malformed) as refusal:
        decode_samples(content, "dir/a.bin", SHAPE)
    assert str(refusal.value).startswith("dir/a.bin: ")
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("side", [9_000, 10_000, 60_000, 2**31 - 1])
def test_a_pixel_bomb_is_refused_before_it_is_decoded(side: int) -> None:
    with pytest.raises(TooLarge, match=r"^a\.png: "):
        decode_samples(png_header(side, side), "a.png", SHAPE)


def test_a_huge_file_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "FILE_BYTES_MAX", 10)
    with pytest.raises(TooLarge, match="11 bytes; at most 10 are read"):
        decode_samples(b"x" * 11, "a.png", SHAPE)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["PNG", "JPEG"]), st.data())
def test_whatever_the_bytes_the_refusal_is_ours(kind: str, data: st.DataObject) -> None:
    content = bytearray(encoded(PIXELS, kind))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    try:
        got = decode_samples(bytes(content[:cut]), "fuzzed", SHAPE)
    except HybridgeError as error:
        assert str(error).startswith("fuzzed: ")  # noqa: PT017 - most examples raise, some do not
    else:
        assert got.shape == (1, *SHAPE)


def test_pillow_is_imported_only_for_images() -> None:
    program = (
        "import sys; from shared.imaging.decode import decode_samples; "
        "decode_samples(b'\\0\\0\\x08\\x01\\0\\0\\0\\x02ab', 'a', (2,)); "
        "sys.exit('PIL' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)
    assert ran.returncode == 0
