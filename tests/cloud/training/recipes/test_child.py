"""Real processes: what needs torch, which only the `[train]` extra brings (`make test-train`)."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cloud.training.child_messages import (
    Checkpointed,
    Failed,
    Made,
    Measured,
    Message,
    Order,
    Started,
    Stopped,
)
from cloud.training.documents import Fitting
from cloud.training.recipes.child import Exit
from tests.cloud.training.recipes.children import an_order, forked_child, whole_run

pytestmark = pytest.mark.train

EACH_STEP = 1e-6


def uninterrupted(folder: Path, **more: object) -> bytes:
    order = an_order(folder, **more)
    with forked_child(order) as child:
        assert isinstance(list(child.says())[-1], Made)
        assert child.ends() == Exit.MADE
    return (folder / "weights.bin").read_bytes()


def killed_after(order: Order, lines: int) -> list[Message]:
    """Its first messages; killed as soon as that many are read, or run to its end."""
    heard: list[Message] = []
    with forked_child(order) as child:
        for message in child.says():
            heard.append(message)
            if len(heard) == lines:
                break
        else:
            assert child.ends() == Exit.MADE
    return heard


def test_killed_at_any_moment_it_ends_with_the_bytes_of_one_that_was_not(tmp_path: Path) -> None:
    whole = uninterrupted(tmp_path / "whole")
    rng = random.Random(7)
    for number in range(4):
        order = an_order(tmp_path / f"killed-{number}", checkpoint_s=EACH_STEP)
        kills = 0
        while not isinstance(killed_after(order, rng.randrange(3, 9))[-1], Made):
            kills += 1
        assert kills >= 1
        assert (order.folder / "weights.bin").read_bytes() == whole


def test_it_goes_on_from_its_newest_checkpoint_and_does_no_step_twice(tmp_path: Path) -> None:
    order = an_order(tmp_path, checkpoint_s=EACH_STEP)
    heard = killed_after(order, 4)
    saved = max(m.step for m in heard if isinstance(m, Checkpointed))
    with forked_child(order) as child:
        again = list(child.says())
    started = again[0]
    assert isinstance(started, Started)
    assert started.resumed_step is not None
    assert started.resumed_step >= saved
    steps = [m.step for m in again if isinstance(m, Checkpointed)]
    assert steps == list(range(started.resumed_step + 1, 10))


def test_a_finished_fit_is_not_fitted_again(tmp_path: Path) -> None:
    whole = uninterrupted(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with forked_child(an_order(tmp_path)) as child:
        again = list(child.says())
    assert not [m for m in again if isinstance(m, Checkpointed | Measured)]
    assert (tmp_path / "weights.bin").read_bytes() == whole


def test_sigterm_lets_it_write_a_checkpoint_and_stop(tmp_path: Path) -> None:
    whole = uninterrupted(tmp_path / "whole", fitting=Fitting(epochs=40, batch=8, seed=3))
    order = an_order(tmp_path / "stopped", fitting=Fitting(epochs=40, batch=8, seed=3))
    heard: list[Message] = []
    with forked_child(order) as child:
        for message in child.says():
            heard.append(message)
            if isinstance(message, Checkpointed) and message.step == 12:
                child.process.terminate()
        assert child.ends() == Exit.STOPPED
    stopped = heard[-1]
    assert isinstance(stopped, Stopped)
    assert 12 < stopped.step < 480
    assert heard[-2].kind == "checkpointed"
    assert heard[-2].step == stopped.step
    with forked_child(order) as child:
        assert isinstance(list(child.says())[-1], Made)
    assert (order.folder / "weights.bin").read_bytes() == whole


def test_a_loss_that_is_no_number_fails_it_at_the_very_step(tmp_path: Path) -> None:
    with forked_child(an_order(tmp_path, "nan")) as child:
        failed = list(child.says())[-1]
        assert child.ends() == Exit.FAILED
    assert isinstance(failed, Failed)
    assert (failed.reason, failed.step) == ("nan_loss", 1)
    assert "learning_rate" in failed.words


def test_an_exception_is_a_bug_with_the_last_line_of_its_traceback(tmp_path: Path) -> None:
    with forked_child(an_order(tmp_path, "bug")) as child:
        failed = list(child.says())[-1]
        assert child.ends() == Exit.FAILED
    assert isinstance(failed, Failed)
    assert failed.reason == "bug"
    assert failed.words == "ValueError: something that nobody thought of"


def test_a_checkpoint_of_another_run_is_refused_in_words_and_it_begins_anew(tmp_path: Path) -> None:
    uninterrupted(tmp_path, fitting=Fitting(epochs=1, batch=32, seed=9))
    with forked_child(an_order(tmp_path)) as child:
        heard = list(child.says())
    assert any(m.kind == "said" and "is of another run or other data" in m.text for m in heard)
    counted = next(m.values for m in heard if isinstance(m, Measured))
    assert counted == {"checkpoints.refused": 1.0}
    assert (tmp_path / "weights.bin").read_bytes() == uninterrupted(tmp_path / "other")


def test_begun_as_the_worker_begins_it_only_messages_are_on_its_stdout(tmp_path: Path) -> None:
    heard, code = whole_run(an_order(tmp_path, "prints"))  # a line of a library would not parse
    assert code == Exit.MADE
    assert isinstance(heard[0], Started)
    assert isinstance(heard[-1], Made)


def test_an_order_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cloud.training.recipes.child"],
        input=b'{"job": 1}\n', stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert ended.returncode == Exit.FAILED
    assert b'"reason":"bad_data"' in ended.stdout
    assert b"recipe: is missing" in ended.stdout


def test_when_nobody_listens_it_ends(tmp_path: Path) -> None:
    order = an_order(tmp_path, fitting=Fitting(epochs=1000, batch=8))
    with forked_child(order) as child:
        next(iter(child.says()))
        child._pipe.close()
        assert child.ends() == Exit.LOST


def test_it_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    order = an_order(tmp_path, fitting=Fitting(epochs=1000, batch=8))
    (tmp_path / "given.json").write_text(order.model_dump_json())
    read, write = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-c", _BEGINS, str(tmp_path / "given.json"), str(write)],
        pass_fds=(write,),
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert b"started" in pipe.readline()
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        pipe.read()  # until nobody holds its other end


_BEGINS = """
import subprocess, sys
subprocess.run([sys.executable, "-m", "tests.cloud.training.recipes.tiny_child"],
               stdin=open(sys.argv[1]), stdout=int(sys.argv[2]))
"""
