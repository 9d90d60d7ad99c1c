"""Rows take turns over epochs: each is seen, none twice before all the others, and a resumed run agrees."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cloud.training.documents import Fitting
from cloud.training.recipes.saying import Saying, StopAsked
from shared.errors import Malformed

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

pytestmark = pytest.mark.train


def test_each_epoch_shows_the_next_rows_and_then_the_first_again() -> None:
    import torch

    from cloud.training.recipes.turns import Part, rows_of_epoch, rows_per_epoch

    turns = (Part(torch.tensor([7, 3]), 9), Part(torch.arange(10, 15), 2))
    assert rows_per_epoch(turns) == 4
    seen = [rows_of_epoch(turns, epoch).tolist() for epoch in range(3)]
    assert seen == [[7, 3, 10, 11], [7, 3, 12, 13], [7, 3, 14, 10]]


def test_a_part_without_rows_or_without_a_turn_shows_none() -> None:
    import torch

    from cloud.training.recipes.turns import Part, rows_of_epoch

    nothing = Part(torch.arange(0), 3)
    assert rows_of_epoch((nothing, Part(torch.arange(4), 0)), 5).tolist() == []


def test_without_turns_each_epoch_shows_every_row() -> None:
    from cloud.training.recipes.turns import every, rows_of_epoch

    assert rows_of_epoch(every(5), 3).tolist() == list(range(5))


class Seeing:
    """A loss that keeps the pixels of the images that it was given."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def __call__(self, model: "nn.Module", batch: "tuple[Tensor, ...]", g: "Generator") -> "Tensor":
        from tests.cloud.training.recipes.tiny_recipes import tiny_loss

        self.seen += [image.numpy().tobytes() for image in batch[0]]
        return tiny_loss(model, batch, g)


def test_a_fitting_shows_a_part_its_next_rows_in_each_epoch(tmp_path: Path) -> None:
    import torch

    from cloud.training.recipes.loop import fit
    from cloud.training.recipes.turns import Part
    from tests.cloud.training.recipes.tiny_recipes import tiny_task

    seeing = Seeing()
    turns = (Part(torch.arange(16), 16), Part(torch.arange(16, 96), 20))
    fit(tiny_task(tmp_path, turns=turns, loss=seeing), Saying(lambda _: None))
    assert len(seeing.seen) == 3 * 36
    times = sorted(seeing.seen.count(image) for image in set(seeing.seen))
    assert times == [1] * 60 + [3] * 16


def test_no_rows_in_any_epoch_is_refused(tmp_path: Path) -> None:
    import torch

    from cloud.training.recipes.loop import fit
    from cloud.training.recipes.turns import Part
    from tests.cloud.training.recipes.tiny_recipes import tiny_task

    with pytest.raises(Malformed, match="turns: no row is in any epoch"):
        fit(tiny_task(tmp_path, turns=(Part(torch.arange(96), 0),)), Saying(lambda _: None))


def test_stopped_and_begun_again_with_turns_and_adamw_it_ends_with_the_same_weights(
    tmp_path: Path,
) -> None:
    import torch

    from cloud.training.recipes.loop import fit
    from cloud.training.recipes.turns import Part
    from tests.cloud.training.recipes.tiny_recipes import TinyNet, bytes_of, tiny_task

    out = Saying(
        lambda line: out.ask_to_stop() if b'"step":2,' in line.replace(b" ", b"") else None
    )
    more = {
        "turns": (Part(torch.arange(16), 16), Part(torch.arange(16, 96), 20)),
        "fitting": Fitting(epochs=3, batch=16, seed=3, optimizer="adamw", learning_rate=0.01),
        "checkpoint_s": 1e-6,
    }
    torch.manual_seed(0)
    whole = bytes_of(fit(tiny_task(tmp_path / "1", **more), Saying(lambda _: None)))
    torch.manual_seed(0)
    with pytest.raises(StopAsked):
        fit(tiny_task(tmp_path / "2", **more), out)
    again = fit(tiny_task(tmp_path / "2", model=TinyNet(9), **more), Saying(lambda _: None))
    assert bytes_of(again) == whole
