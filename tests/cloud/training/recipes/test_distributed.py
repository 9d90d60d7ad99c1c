"""Several real processes for one job: what needs torch (`make test-train`)."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from cloud.training.child_messages import Checkpointed, Failed, Made, Message, Started, Stopped
from cloud.training.documents import Fitting
from cloud.training.recipes.child import Exit
from tests.cloud.training.recipes.children import an_order, forked_child

pytestmark = pytest.mark.train

LONG = Fitting(epochs=1000, batch=32, seed=3)


def run(folder: Path, name: str = "tiny", **more: object) -> tuple[list[Message], int]:
    with forked_child(an_order(folder, name, **more)) as child:
        return list(child.says()), child.ends()


def test_two_processes_give_the_same_weights_in_two_runs_one_of_which_loses_a_rank(
    tmp_path: Path,
) -> None:
    whole, code = run(tmp_path / "whole", processes=2)
    assert code == Exit.MADE
    assert isinstance(whole[0], Started)
    assert "2 x 1 threads" in whole[0].machine
    assert isinstance(whole[-1], Made)
    assert [m.step for m in whole if isinstance(m, Checkpointed)] == [3, 6, 9]

    lost, code = run(tmp_path / "lost", "lost", processes=2, checkpoint_s=1e-6)
    assert code == Exit.LOST
    assert not any(isinstance(m, Made | Stopped | Failed) for m in lost)
    assert lost[-1].kind == "said"
    assert "rank 1 of 2 was ended by SIGKILL" in lost[-1].text
    assert [m.step for m in lost if isinstance(m, Checkpointed)] == [1, 2, 3, 4]

    again, code = run(tmp_path / "lost", processes=2)
    assert code == Exit.MADE
    assert [m.step for m in again if isinstance(m, Checkpointed)] == [6, 9]
    one, other = ((tmp_path / name / "weights.bin").read_bytes() for name in ("whole", "lost"))
    assert one == other


def test_two_processes_end_where_one_with_the_same_batch_ends(tmp_path: Path) -> None:
    # 96 rows in batches of 19: ranks have 10 and 9, and of the last batch the second has none.
    # In float32: of bfloat16 each process rounds its own part of a gradient.
    fitting = Fitting(epochs=3, batch=19, seed=3, bf16=False)
    for folder, processes in (("one", 1), ("two", 2)):
        _, code = run(tmp_path / folder, "plain", processes=processes, fitting=fitting)
        assert code == Exit.MADE
    one, two = (
        np.frombuffer((tmp_path / name / "weights.bin").read_bytes()[:-8], np.float32)
        for name in ("one", "two")
    )
    assert np.allclose(one, two, atol=1e-5)


def test_a_rank_that_fails_alone_says_why(tmp_path: Path) -> None:
    heard, code = run(tmp_path, "refuses", processes=2)
    assert code == Exit.FAILED
    assert isinstance(heard[-1], Failed)
    assert heard[-1].words == "ValueError: this rank alone fails"


def test_a_loss_that_is_no_number_is_said_once(tmp_path: Path) -> None:
    heard, code = run(tmp_path, "nan", processes=2)
    assert code == Exit.FAILED
    assert [m.reason for m in heard if isinstance(m, Failed)] == ["nan_loss"]


def test_asked_to_stop_all_ranks_stop_at_one_step(tmp_path: Path) -> None:
    order = an_order(tmp_path, processes=2, fitting=LONG)
    with forked_child(order) as child:
        heard: list[Message] = []
        for message in child.says():
            heard.append(message)
            if isinstance(message, Checkpointed) and message.step == 3:
                child.process.terminate()
        assert child.ends() == Exit.STOPPED
    assert isinstance(heard[-1], Stopped)
    assert heard[-2].kind == "checkpointed"
    assert heard[-2].step == heard[-1].step


def test_no_rank_outlives_the_child(tmp_path: Path) -> None:
    order = an_order(tmp_path, processes=2, fitting=LONG)
    with forked_child(order) as child:
        says = child.says()
        next(says)
        assert child.process.pid is not None
        os.kill(child.process.pid, signal.SIGKILL)
        list(says)  # until nobody holds the pipe's other end
