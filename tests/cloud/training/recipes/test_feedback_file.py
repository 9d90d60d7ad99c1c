from pathlib import Path

import numpy as np
import pytest

from cloud.feedback.data_file import content_hash
from cloud.training.recipes.feedback_file import read_rows
from shared.errors import HybridgeError
from tests.cloud.training.recipes.materials import feedback, write_feedback


def test_what_was_written_is_read(tmp_path: Path) -> None:
    rows = feedback()
    assert content_hash(read_rows(write_feedback(tmp_path / "d.npz", rows))) == content_hash(rows)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    write_feedback(tmp_path / "d.npz", feedback(8, ids=np.array([object()] * 8)))
    with pytest.raises(HybridgeError, match="Object arrays cannot be loaded"):
        read_rows(tmp_path / "d.npz")


def test_a_file_that_lacks_an_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", inputs=feedback().inputs)
    with pytest.raises(HybridgeError, match="lacks labels, soft"):
        read_rows(tmp_path / "d.npz")


def test_arrays_of_other_lengths_are_refused(tmp_path: Path) -> None:
    write_feedback(tmp_path / "d.npz", feedback(8, labels=np.arange(7)))
    with pytest.raises(HybridgeError, match=r"its arrays have \[7, 8\] rows"):
        read_rows(tmp_path / "d.npz")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HybridgeError, match="there is no such data set"):
        read_rows(tmp_path / "d.npz")
