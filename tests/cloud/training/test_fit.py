"""What needs torch, which only the `[train]` extra brings: `make test-train`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cloud.training.fashion_mnist import Split
from tests.cloud.training.soft_images import soft_images

if TYPE_CHECKING:
    from torch import nn

pytestmark = pytest.mark.train

_RNG = np.random.default_rng(5)
LABELS = _RNG.integers(0, 3, 96)
IMAGES = soft_images(96) // 4 + (LABELS * 60).astype(np.uint8)[:, None, None]
DATA = Split(IMAGES.astype(np.uint8), LABELS)
TEACHER = _RNG.normal(0, 1, (2, 96, 3)).astype(np.float32)
EPOCHS, STEPS_PER_EPOCH = 3, 3


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # images this small only make threads wait for each other
    yield
    torch.set_num_threads(threads)


class Killed(BaseException):
    """The process ends here."""


def network() -> "nn.Module":
    import torch

    from cloud.training.networks import EdgeNet

    torch.manual_seed(1)
    return EdgeNet(widths=(4, 6, 8), classes=3)


def fitted(
    model: "nn.Module | None" = None, checkpoint: Path | None = None, **more: object
) -> "nn.Module":
    from cloud.training.fit import Plan, fit

    plan = Plan(
        **{"epochs": EPOCHS, "seed": 3, "batch": 32, "bad_day_share": 0.4, "moves": True, **more}
    )
    return fit(model or network(), DATA, plan, teacher_logits=TEACHER, checkpoint=checkpoint)


def same(one: "nn.Module", other: "nn.Module") -> bool:
    import torch

    mine, theirs = one.state_dict(), other.state_dict()
    return all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    one = fitted()
    assert same(one, fitted())
    assert not same(one, fitted(seed=4))


def test_the_copy_that_is_returned_is_averaged_and_in_evaluation_mode() -> None:
    model = network()
    averaged = fitted(model)
    assert not averaged.training
    assert not same(averaged, model)


@pytest.mark.parametrize("killed_at", [STEPS_PER_EPOCH, STEPS_PER_EPOCH + 2, 2 * STEPS_PER_EPOCH])
def test_a_run_killed_at_any_step_ends_with_the_weights_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    from cloud.training.recipes import sgd

    steps, average = 0, sgd.average

    def dying(*arguments: object) -> None:
        nonlocal steps
        if steps == killed_at:
            raise Killed
        steps += 1
        average(*arguments)

    checkpoint = tmp_path / "edge.ckpt"
    with monkeypatch.context() as patched:
        patched.setattr(sgd, "average", dying)
        with pytest.raises(Killed):
            fitted(checkpoint=checkpoint)
    assert checkpoint.exists()
    import torch

    torch.manual_seed(99)  # the new process draws other first weights, and must not use them
    from cloud.training.networks import EdgeNet

    resumed = fitted(EdgeNet(widths=(4, 6, 8), classes=3), checkpoint)
    assert same(resumed, fitted())
    assert [path.name for path in tmp_path.iterdir()] == ["edge.ckpt"]


def test_a_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cloud.training.recipes import sgd

    first = fitted(checkpoint=tmp_path / "edge.ckpt")
    monkeypatch.setattr(sgd, "average", None)  # any step would fail
    assert same(first, fitted(checkpoint=tmp_path / "edge.ckpt"))


def test_a_loss_that_is_no_number_stops_the_run_before_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloud.training.recipes import sgd
    from cloud.training.recipes.failing import LossNotFinite

    monkeypatch.setattr(sgd, "average", None)  # a step would fail otherwise
    monkeypatch.setattr("tests.cloud.training.test_fit.TEACHER", TEACHER * np.float32(np.nan))
    with pytest.raises(LossNotFinite, match="step 1: the loss is no finite number"):
        fitted(checkpoint=tmp_path / "edge.ckpt")


def test_it_learns() -> None:
    from cloud.training.fit import logits_of

    model = fitted(epochs=30, average_decay=0.9, distill_share=0.0, bad_day_share=0.0)
    assert (logits_of(model, DATA.images).argmax(1) == LABELS).mean() > 0.9


def test_logits_do_not_depend_on_how_images_are_batched() -> None:
    from cloud.training.fit import logits_of

    model = network().eval()
    whole = logits_of(model, DATA.images, 96)
    assert whole.shape == (96, 3)
    assert np.allclose(logits_of(model, DATA.images, 7), whole, atol=1e-5)
