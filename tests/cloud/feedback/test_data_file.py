"""A data set's file, read without trust."""

import io
import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest

from cloud.feedback.data_file import DataRows, content_hash, read_rows, write_rows
from shared.errors import Malformed, NotTrusted, TooLarge


def rows(count: int = 5) -> DataRows:
    return DataRows(
        inputs=np.arange(count * 4, dtype="u1").reshape(count, 2, 2),
        labels=np.arange(count, dtype="i8") % 3, soft=np.full((count, 3), 1 / 3, "f4"),
        sources=np.ones(count, "u1"), shares=np.ones(count, "f4"),
        edge_labels=np.zeros(count, "i8"), holdout=np.arange(count) == 0,
        captured=np.arange(count, dtype="f8"), ids=np.array([f"{n:036d}" for n in range(count)]),
        devices=np.array([f"cam-{n}" for n in range(count)]), sites=np.array(["Zürich"] * count),
    )  # fmt: skip


def packed(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def members(found: DataRows) -> dict[str, np.ndarray]:
    return {field.name: getattr(found, field.name) for field in fields(found)}


def test_it_comes_back_as_it_was():
    before = rows()
    after = read_rows(write_rows(before), "it", content_hash(before))
    for name, array in members(before).items():
        assert np.array_equal(getattr(after, name), array), name
        assert getattr(after, name).dtype == array.dtype, name


def test_the_hash_is_of_the_content_and_not_of_the_zip():
    before = rows()
    assert content_hash(read_rows(packed(**members(before)), "it")) == content_hash(before)
    other = replace(before, labels=before.labels[::-1].copy())
    assert content_hash(other) != content_hash(before)


def test_another_content_than_its_name_says_is_refused():
    with pytest.raises(NotTrusted, match="not 0000"):
        read_rows(write_rows(rows()), "it", "0" * 64)


def test_a_damaged_file_is_refused():
    content = bytearray(write_rows(rows()))
    content[len(content) // 2] ^= 0xFF
    with pytest.raises((Malformed, NotTrusted)):
        read_rows(bytes(content), "it", content_hash(rows()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": np.array([0, 1, 2, 3, 0])}, "outside of the 3 classes"),
        ({"labels": np.array([0, 1, 2, -1, 0])}, "outside of the 3 classes"),
        ({"labels": np.zeros((5, 1), "i8")}, "labels are"),
        ({"soft": np.full((5, 3), np.nan, "f4")}, "must be finite"),
        ({"shares": np.zeros(5, "f4")}, "shares above 0"),
        ({"sources": np.full(5, 3, "u1")}, "a source is none of"),
        ({"devices": np.array(["cam-1"])}, r"devices has \(1,\) for 5"),
        ({"ids": np.array(["x" * 99] * 5)}, "ids: must be text"),
        ({"sites": np.zeros(5)}, "sites: must be text"),
        ({"inputs": np.zeros((4, 2, 2), "u1")}, "inputs has"),
        ({"inputs": np.array([{}] * 5, dtype=object)}, "inputs"),
        ({"more": np.zeros(5)}, "at most 11|nothing else"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(change, said):
    with pytest.raises((Malformed, TooLarge), match=said):
        read_rows(packed(**(members(rows()) | change)), "it")


def test_what_is_missing_is_named():
    less = members(rows())
    del less["sites"]
    with pytest.raises(Malformed, match="it must hold inputs"):
        read_rows(packed(**less), "it")


def test_text_that_is_none_is_refused():
    less = members(rows())
    less["sites"] = np.frombuffer(b"\xff\xff\xff\xff" * 5, "<U1")
    with pytest.raises(Malformed, match="no Unicode"):
        read_rows(packed(**less), "it")


def test_a_file_that_unpacks_to_more_than_it_may_is_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inputs.npy", bytes(10_000_000))
    with pytest.raises(TooLarge, match="unpacks to"):
        read_rows(file.getvalue(), "it", bytes_max=1_000_000)
