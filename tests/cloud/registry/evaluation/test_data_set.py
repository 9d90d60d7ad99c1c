import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.registry.evaluation.data_set import (
    ROWS_MAX,
    EvaluationData,
    check_fits,
    parse_data_set,
)
from shared.bundle.reader import open_bundle
from shared.errors import Malformed, TooLarge
from tests.cloud.registry.evaluation.world import npz
from tests.tiny_bundle import write_tiny_bundle

INPUTS = np.zeros((30, 4, 4), np.uint8)
LABELS = np.arange(30) % 3
GOOD = npz(inputs=INPUTS, labels=LABELS)


def test_data_is_read_with_slices_and_without():
    assert parse_data_set(GOOD, "d").slices == ()
    slices = np.array(["night", "dämmerung", "day"] * 10)
    found = parse_data_set(npz(inputs=INPUTS, labels=LABELS, slices=slices), "d")
    assert found.slices == tuple(slices)
    assert found.labels.dtype == np.int64
    assert found.rows == 30


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"inputs": INPUTS}, "must hold `inputs`, `labels`"),
        ({"inputs": INPUTS, "labels": LABELS, "more": LABELS}, "nothing else"),
        ({"inputs": INPUTS, "labels": LABELS.astype(np.float32)}, "labels are float32"),
        ({"inputs": INPUTS, "labels": LABELS[:, None]}, r"labels are int64\[30, 1\]"),
        ({"inputs": INPUTS, "labels": LABELS[:29]}, "for 29 labels"),
        ({"inputs": INPUTS, "labels": LABELS - 1}, "labels go from -1 to 1"),
        ({"inputs": INPUTS, "labels": LABELS + 2**40}, "they count classes from 0"),
        ({"inputs": INPUTS, "labels": LABELS * 0}, "every label is 0"),
        ({"inputs": INPUTS[:0], "labels": LABELS[:0]}, "holds no rows"),
        ({"inputs": np.float32(1), "labels": LABELS}, "one row for each"),
        ({"inputs": np.full((30, 2), np.nan, np.float32), "labels": LABELS}, r"inputs\[0\] holds NaN"),
        ({"inputs": np.array([object()] * 30), "labels": LABELS}, "not a plain number"),
        ({"inputs": INPUTS, "labels": LABELS, "slices": LABELS}, "must be text"),
        ({"inputs": INPUTS, "labels": LABELS, "slices": np.array(["a"] * 29)}, "29 slices"),
        ({"inputs": INPUTS, "labels": LABELS, "slices": np.array(["a", ""] * 15)}, "is no name"),
        ({"inputs": INPUTS, "labels": LABELS, "slices": np.array(["a\x1b"] * 30)}, "is no name"),
        ({"inputs": INPUTS, "labels": LABELS, "slices": np.array(["a" * 65] * 30)}, "must be text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(arrays, said):
    with pytest.raises(Malformed, match=said):
        parse_data_set(npz(**arrays), "d")


def test_the_row_that_is_not_finite_is_named():
    inputs = np.zeros((30, 2), np.float32)
    inputs[17, 1] = np.inf
    with pytest.raises(Malformed, match=r"inputs\[17\]"):
        parse_data_set(npz(inputs=inputs, labels=LABELS), "d")


def test_too_many_slices_are_refused():
    rows = 1001
    arrays = {"inputs": np.zeros((rows, 1), np.uint8), "labels": np.arange(rows) % 2}
    names = np.array([f"s{at}" for at in range(rows)])
    with pytest.raises(Malformed, match="at most 1000"):
        parse_data_set(npz(**arrays, slices=names), "d")


def test_a_zip_bomb_is_refused_unread():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("inputs.npy", bytes(50_000_000))
        bomb.writestr("labels.npy", b"")
    with pytest.raises(TooLarge, match="at most 1000000"):
        parse_data_set(packed.getvalue(), "d", bytes_max=1_000_000)


def test_one_name_twice_is_refused():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as twice:
        twice.writestr("inputs.npy", b"")
        twice.writestr("labels.npy", b"")
        with pytest.warns(UserWarning, match="Duplicate"):
            twice.writestr("labels.npy", b"")
    with pytest.raises(Malformed, match="twice"):
        parse_data_set(packed.getvalue(), "d")


def read(content: bytes) -> EvaluationData | Malformed | TooLarge:
    try:
        return parse_data_set(content, "d", bytes_max=100_000)
    except (Malformed, TooLarge) as error:
        return error


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=5),
       st.integers(0, len(GOOD)))  # fmt: skip
def test_damage_is_refused_in_words(flips, length):
    content = bytearray(GOOD)
    for at, value in flips:
        content[at] = value
    found = read(bytes(content[:length]))
    if isinstance(found, EvaluationData):
        assert found.rows == len(found.inputs)
    else:
        assert str(found).startswith("d: ")


def test_data_must_fit_the_model(tmp_path):
    manifest = open_bundle(write_tiny_bundle(tmp_path / "b")).manifest

    def check(rows_min: int = 1, **arrays: np.ndarray) -> None:
        data = parse_data_set(npz(**({"inputs": INPUTS, "labels": LABELS} | arrays)), "d")
        check_fits(data, manifest, "d", rows_min)

    check()
    with pytest.raises(Malformed, match="30 rows; at least 31"):
        check(rows_min=31)
    with pytest.raises(
        Malformed, match=r"inputs are float32\[30, 4, 4\]; .* takes uint8\[N, 4, 4\]"
    ):
        check(inputs=INPUTS.astype(np.float32))
    with pytest.raises(Malformed, match=r"uint8\[30, 4, 5\]"):
        check(inputs=np.zeros((30, 4, 5), np.uint8))
    with pytest.raises(Malformed, match=r"labels go up to 3; .* has 3 classes"):
        check(labels=LABELS + 1)


def test_a_small_file_of_many_rows_is_refused_before_they_take_memory() -> None:
    """200,000,000 rows of a byte were 390 KB of file and 2 GB of memory."""
    rows = ROWS_MAX + 1
    packed = io.BytesIO()
    np.savez_compressed(
        packed, inputs=np.zeros((rows, 1), np.uint8), labels=np.zeros(rows, np.uint8)
    )
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="2000001 rows; at most 2000000"):
            parse_data_set(packed.getvalue(), "d")
        assert tracemalloc.get_traced_memory()[1] < 8 * rows  # labels alone would have that
    finally:
        tracemalloc.stop()


def test_answers_that_nobody_could_hold_are_not_asked_for(tmp_path: Path) -> None:
    manifest = open_bundle(write_tiny_bundle(tmp_path / "b")).manifest
    data = EvaluationData(np.zeros((30, 4, 4), np.uint8), np.arange(30) % 3, ())
    check_fits(data, manifest, "d", 20, 30 * 3 * 4)
    with pytest.raises(TooLarge, match="answers 30 rows with 360 bytes; at most 359"):
        check_fits(data, manifest, "d", 20, 30 * 3 * 4 - 1)
