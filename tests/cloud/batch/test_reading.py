"""An input's bytes to rows; what `shared.imaging` refuses has its tests there."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.batch.reading import rows_expected, rows_of
from shared.errors import Malformed, Refused, TooLarge
from shared.imaging.decode import FILE_BYTES_MAX
from tests.cloud.batch.images import idx, noise, npy, npz, png
from tests.tiny_bundle import sure_image

SHAPE = (4, 4)


def test_every_format_gives_rows() -> None:
    rows = noise(3)
    for content in (npy(rows), idx(rows), npz(images=rows)):
        assert np.array_equal(rows_of(content, "x", SHAPE), rows)
    assert np.array_equal(rows_of(png(sure_image(1)), "x", SHAPE), sure_image(1)[None])
    assert np.array_equal(rows_of(npz(image=sure_image(1)), "x", SHAPE), sure_image(1)[None])


def test_of_an_npz_the_array_that_fits() -> None:
    content = npz(labels=np.zeros(3, np.int64), images=noise(3), bytes=np.zeros(3, np.uint8))
    assert np.array_equal(rows_of(content, "x", SHAPE), noise(3))


def test_an_npz_where_two_arrays_fit_is_ambiguous() -> None:
    with pytest.raises(Malformed, match=r"x.npz: one array .* 2 arrays fit \(a.npy, b.npy\)"):
        rows_of(npz(a=noise(3), b=noise(3)), "x.npz", SHAPE)


def test_an_npz_where_none_fits() -> None:
    with pytest.raises(Malformed, match=r"uint8 \[N, 4, 4\]; none"):
        rows_of(npz(a=np.zeros((3, 5, 5), np.uint8), b=noise(3).astype(np.float32)), "x", SHAPE)


def test_an_npz_without_a_row() -> None:
    with pytest.raises(Malformed, match="none"):
        rows_of(npz(a=np.zeros((0, 4, 4), np.uint8)), "x", SHAPE)


def test_an_npz_that_unpacks_to_too_much_is_not_unpacked() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed, packed.open("a.npy", "w") as a:
        for _ in range(FILE_BYTES_MAX // 2**20 + 1):
            a.write(bytes(2**20))
    with pytest.raises(TooLarge, match="unpacks to"):
        rows_of(out.getvalue(), "x", SHAPE)


def test_an_npz_of_too_many_arrays() -> None:
    with pytest.raises(TooLarge, match="65 arrays"):
        rows_of(npz(**{f"a{n}": noise(1) for n in range(65)}), "x", SHAPE)


@given(st.integers(0, 400), st.binary(max_size=8))
def test_a_damaged_npz_is_refused_in_words_or_read(at: int, patch: bytes) -> None:
    content = bytearray(npz(images=noise(3)))
    content[at : at + len(patch)] = patch
    try:
        rows = rows_of(bytes(content), "x", SHAPE)
    except Refused:
        return  # any other exception fails the test
    assert rows.shape[1:] == SHAPE


def test_rows_are_judged_by_name_and_size() -> None:
    assert rows_expected("a.PNG", 5000, 16) == 1
    assert rows_expected("a.npy", 1600 + 128, 16) == 108
    assert rows_expected("a.idx", 3, 16) == 1
