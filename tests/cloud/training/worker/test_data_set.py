"""A data set on its way into a job's folder: missing, another one's, too big, packed anew."""

from io import BytesIO

import numpy as np
import pytest

from cloud.feedback.data_file import DataRows, content_hash
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.worker.data_set import bring
from shared.errors import Malformed, NotTrusted, TooLarge, Unknown

ROWS = DataRows(
    inputs=np.zeros((2, 4, 4), np.uint8), labels=np.array([0, 1]),
    soft=np.full((2, 2), 0.5, np.float32), sources=np.zeros(2, np.uint8),
    shares=np.ones(2, np.float32), edge_labels=np.array([1, 1]), holdout=np.zeros(2, np.bool_),
    captured=np.zeros(2), ids=np.array(["a", "b"]), devices=np.array(["d", "d"]),
    sites=np.array(["", ""]),
)  # fmt: skip


def packed(save=np.savez, **over):
    arrays = {name: getattr(ROWS, name) for name in ROWS.__dataclass_fields__} | over
    out = BytesIO()
    save(out, **{name: array for name, array in arrays.items() if array is not None})
    return out.getvalue()


@pytest.fixture
def blobs(tmp_path):
    return FolderBlobs(tmp_path / "artifacts")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_it_is_known_by_its_rows_however_they_are_packed(blobs, tmp_path, save):
    content, name = packed(save), content_hash(ROWS)
    blobs.put(name, content)
    bring(blobs, name, tmp_path / "job" / "data_set.npz", 10**6)
    assert (tmp_path / "job" / "data_set.npz").read_bytes() == content


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (None, Unknown, "another store than the process `learning`"),
        (packed(labels=np.array([1, 1])), NotTrusted, "its content has the SHA-256"),
        (packed(labels=None), Malformed, "is no data set"),
        (packed(labels=np.array([{}, 1], dtype=object)), Malformed, "labels"),
        (packed()[:-30], Malformed, "not a readable .npz"),
        (b"\0" * 2_000_000, TooLarge, "over 1000000 bytes"),
    ],
)
def test_what_is_not_that_data_set_is_refused_and_leaves_nothing(
    blobs, tmp_path, content, error, words
):
    name, target = content_hash(ROWS), tmp_path / "data_set.npz"
    if content is not None:
        blobs.put(name, content)
    with pytest.raises(error, match=words):
        bring(blobs, name, target, 10**6)
    assert not target.exists()
