import errno
import os

import pytest

from cloud.training.recipes.failing import BadCheckpoint, LossNotFinite, failed
from shared.disk import NoRoom
from shared.errors import Malformed, Unavailable


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (LossNotFinite("the loss", 4), "nan_loss", "step 4: the loss is no finite number"),
        (BadCheckpoint("a: 9 bytes is over 5"), "bad_checkpoint", "a: 9 bytes is over 5"),
        (Unavailable("x: cannot write it: Input/output error"), "away", "x: cannot write it: I"),
        (OSError(errno.EIO, os.strerror(errno.EIO), "rows.npz"), "away",
         "rows.npz: Input/output error; see to its disk"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "away", "a file: Read-only file system"),
        (NoRoom("x: no room"), "no_room", "x: no room"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.onnx"), "no_room",
         "a.onnx: No space left on device; free space on its disk"),
        (MemoryError("9 GB"), "no_room", "out of memory: 9 GB; lower fitting.batch"),
        (Malformed("labels: one class only"), "bad_data", "labels: one class only"),
        (OSError(errno.EACCES, "denied", "b"), "bug", "PermissionError: [Errno 13] denied: 'b'"),
        (ModuleNotFoundError("no", name="torch"), "bug", "torch is not installed here; a train"),
        (KeyError("x"), "bug", "KeyError: 'x'"),
    ],
)  # fmt: skip
def test_the_reason_and_the_words_of_an_error(error: Exception, reason: str, words: str) -> None:
    said = failed(error)
    assert said.reason == reason
    assert said.words.startswith(words)


def test_a_loss_that_is_no_number_has_its_step() -> None:
    assert failed(LossNotFinite("a gradient", 4)).step == 4


def test_long_words_are_cut_to_what_the_message_holds() -> None:
    assert len(failed(ValueError("x" * 5000)).words) == 1000
