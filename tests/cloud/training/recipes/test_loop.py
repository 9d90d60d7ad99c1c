"""What needs torch, which only the `[train]` extra brings: `make test-train`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cloud.training.child_messages import MESSAGES, Checkpointed, Measured, Message
from cloud.training.documents import Fitting
from cloud.training.recipes.saying import Saying, StopAsked
from shared.errors import Malformed

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

    from cloud.training.recipes.loop import Answers, Batch

pytestmark = pytest.mark.train

FITTING = Fitting(epochs=3, batch=32, seed=3)
STEPS = 9


@pytest.fixture(autouse=True)
def steady() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


class Listener:
    def __init__(self, stop_at: int | None = None) -> None:
        self.heard: list[Message] = []
        self.out = Saying(self._hear)
        self._stop_at = stop_at

    def _hear(self, line: bytes) -> None:
        self.heard.append(MESSAGES.validate_json(line))
        if self._stop_at in self.steps:
            self.out.ask_to_stop()

    @property
    def steps(self) -> list[int]:
        return [message.step for message in self.heard if isinstance(message, Checkpointed)]


def fitted(folder: Path, listener: Listener | None = None, **more: object) -> "nn.Module":
    from cloud.training.recipes.loop import fit
    from tests.cloud.training.recipes.tiny_recipes import tiny_task

    return fit(tiny_task(folder, **more), (listener or Listener()).out)


def weights(model: "nn.Module") -> bytes:
    from tests.cloud.training.recipes.tiny_recipes import bytes_of

    return bytes_of(model)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    import torch

    one = weights(fitted(tmp_path / "1"))
    torch.manual_seed(0)
    assert weights(fitted(tmp_path / "2")) == one
    torch.manual_seed(0)
    other = fitted(tmp_path / "3", fitting=FITTING.model_copy(update={"seed": 4}))
    assert weights(other) != one


def test_of_what_a_short_run_began_with_nothing_is_left_in_its_average() -> None:
    import torch
    from torch import nn

    from cloud.training.recipes.sgd import average

    averaged, model = nn.BatchNorm1d(1), nn.BatchNorm1d(1)
    assert averaged.running_var is not None
    assert model.running_var is not None
    model.running_var.fill_(0.01)
    for step in range(1, 101):
        average(averaged, model, 1 - 3 / 100, step)
    assert torch.isclose(averaged.running_var, torch.tensor(0.01), rtol=1e-3).all()


@pytest.mark.parametrize("asked", [True, False])
def test_it_steps_in_bfloat16_where_that_is_asked_for_and_the_cpu_has_it(
    tmp_path: Path, asked: bool
) -> None:
    import torch

    from cloud.training.recipes.sgd import computes_in_bf16
    from tests.cloud.training.recipes.tiny_recipes import tiny_loss

    answered = set[torch.dtype]()

    def loss(answers: "Answers", batch: "Batch", g: "Generator") -> "Tensor":
        def noted(x: "Tensor") -> "Tensor":
            logits = answers(x)
            answered.add(logits.dtype)
            return logits.float()

        return tiny_loss(noted, batch, g)

    fitting = FITTING.model_copy(update={"bf16": asked})
    model = fitted(tmp_path, loss=loss, fitting=fitting)
    assert answered == {torch.bfloat16 if asked and computes_in_bf16() else torch.float32}
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("stopped_at", range(1, STEPS - 1))
def test_stopped_at_any_step_it_ends_with_the_same_weights(tmp_path: Path, stopped_at: int) -> None:
    import torch

    whole = weights(fitted(tmp_path / "whole"))
    torch.manual_seed(0)
    with pytest.raises(StopAsked) as stop:
        fitted(tmp_path / "stopped", Listener(stopped_at), checkpoint_s=1e-6)
    assert stop.value.step in {stopped_at, stopped_at + 1}
    torch.manual_seed(99)  # the new process drew other numbers, and must not use them
    assert weights(fitted(tmp_path / "stopped", model=_other_first_weights())) == whole


def _other_first_weights() -> "nn.Module":
    from tests.cloud.training.recipes.tiny_recipes import TinyNet

    return TinyNet(99)


def test_asked_before_its_first_step_it_stops_there(tmp_path: Path) -> None:
    listener = Listener()
    listener.out.ask_to_stop()
    with pytest.raises(StopAsked) as stop:
        fitted(tmp_path, listener)
    assert stop.value.step == 0


def test_a_checkpoint_is_written_in_time_and_at_the_end_of_each_epoch(tmp_path: Path) -> None:
    rare, often = Listener(), Listener()
    fitted(tmp_path / "rare", rare, checkpoint_s=1e6)
    fitted(tmp_path / "often", often, checkpoint_s=1e-6)
    assert rare.steps == [3, 6, 9]
    assert often.steps == list(range(1, STEPS + 1))


def test_it_says_the_mean_loss_of_each_epoch_also_of_one_that_was_interrupted(
    tmp_path: Path,
) -> None:
    def losses(listener: Listener) -> list[float]:
        return [m.values["loss"] for m in listener.heard if isinstance(m, Measured) and m.step == 3]

    import torch

    whole, again = Listener(), Listener()
    fitted(tmp_path / "whole", whole)
    torch.manual_seed(0)
    with pytest.raises(StopAsked):
        fitted(tmp_path / "stopped", Listener(1), checkpoint_s=1e-6)
    fitted(tmp_path / "stopped", again)
    assert losses(again) == losses(whole) != []


def bad_at(step: int, what: str) -> object:
    """A loss that is no number at one step, or one whose gradient is none."""
    import torch

    from tests.cloud.training.recipes.tiny_recipes import tiny_loss

    seen = 0

    def loss(model: "nn.Module", batch: "tuple[Tensor, ...]", g: "Generator") -> "Tensor":
        nonlocal seen
        seen += 1
        value = tiny_loss(model, batch, g)
        if seen < step:
            return value
        if what == "the loss":
            return value * torch.nan
        # Finite, with an infinite slope: the square root at zero.
        return value + (value - value.detach()).abs().sqrt()

    return loss


@pytest.mark.parametrize("what", ["the loss", "a gradient"])
@pytest.mark.parametrize("step", [1, 4, 5])
def test_a_value_that_is_no_number_stops_it_at_the_very_step_with_the_weights_before_it(
    tmp_path: Path, what: str, step: int
) -> None:
    import torch

    from cloud.training.recipes.failing import LossNotFinite

    whole = weights(fitted(tmp_path / "whole"))
    torch.manual_seed(0)
    listener = Listener()
    with pytest.raises(LossNotFinite, match=f"step {step}: {what} is no finite number") as bad:
        fitted(tmp_path / "bad", listener, loss=bad_at(step, what))
    assert bad.value.step == step
    assert listener.steps[-1] == step - 1
    # What is kept is the state before that step, whole: with a good loss it ends as if nothing was.
    torch.manual_seed(99)
    assert weights(fitted(tmp_path / "bad")) == whole


def test_a_validation_loss_that_is_no_number_stops_it(tmp_path: Path) -> None:
    from cloud.training.recipes.failing import LossNotFinite

    with pytest.raises(LossNotFinite, match="step 3: the validation loss"):
        fitted(tmp_path, validate=lambda _: float("nan"))


def validations(*values: float) -> object:
    left = list(values)
    return lambda _: left.pop(0)


def test_it_ends_on_a_plateau_with_the_weights_of_the_best_epoch(tmp_path: Path) -> None:
    import torch

    patient = Fitting(epochs=8, batch=32, seed=3, patience=2)
    listener = Listener()
    stopped = fitted(
        tmp_path / "stopped", listener, fitting=patient, validate=validations(3.0, 1.0, 2.0, 1.0)
    )
    assert listener.steps[-1] == 12
    last = [m for m in listener.heard if isinstance(m, Measured)][-1]
    assert last.values["validation.loss"] == 1.0
    torch.manual_seed(0)
    kept: list[bytes] = []
    fitted(
        tmp_path / "whole", fitting=patient.model_copy(update={"patience": 8}),
        validate=lambda model: kept.append(weights(model)) or float(-len(kept)),
    )  # fmt: skip
    assert weights(stopped) == kept[1]


def test_a_loss_that_creeps_is_a_plateau_and_its_last_weights_are_the_best(tmp_path: Path) -> None:
    patient = Fitting(epochs=8, batch=32, seed=3, patience=2)
    listener = Listener()
    losses = iter((3.0, 1.0, 0.999, 0.998))
    kept: list[bytes] = []
    stopped = fitted(
        tmp_path, listener, fitting=patient,
        validate=lambda model: kept.append(weights(model)) or next(losses),
    )  # fmt: skip
    assert listener.steps[-1] == 12
    assert weights(stopped) == kept[3]


def test_a_run_that_ended_on_a_plateau_is_not_gone_on_with(tmp_path: Path) -> None:
    patient = Fitting(epochs=8, batch=32, seed=3, patience=1)
    first = fitted(tmp_path, fitting=patient, validate=validations(1.0, 2.0))
    listener = Listener()
    again = fitted(tmp_path, listener, fitting=patient, validate=validations())
    assert listener.steps == []
    assert weights(again) == weights(first)


def test_patience_goes_on_where_it_was(tmp_path: Path) -> None:
    patient = Fitting(epochs=8, batch=32, seed=3, patience=2)
    with pytest.raises(StopAsked):
        fitted(
            tmp_path,
            Listener(6),
            fitting=patient,
            validate=validations(1.0, 2.0, 2.0),
            checkpoint_s=9,
        )
    listener = Listener()
    fitted(tmp_path, listener, fitting=patient, validate=validations(2.0))
    assert listener.steps == [9]


def test_what_is_returned_is_averaged_and_in_evaluation_mode(tmp_path: Path) -> None:
    from tests.cloud.training.recipes.tiny_recipes import TinyNet

    model = TinyNet(1)
    averaged = fitted(tmp_path, model=model)
    assert not averaged.training
    assert weights(averaged) != weights(model)


def test_the_last_quarter_has_its_own_loss(tmp_path: Path) -> None:
    from tests.cloud.training.recipes.tiny_recipes import tiny_loss

    late: list[int] = []

    def seen(*arguments: object) -> "Tensor":
        late.append(1)
        return tiny_loss(*arguments)  # type: ignore[arg-type]  # what the loop gives

    fitted(tmp_path, fitting=Fitting(epochs=8, batch=32), late_loss=seen)
    assert len(late) == 2 * 3


def test_weights_that_may_not_change_stay(tmp_path: Path) -> None:
    import torch

    from tests.cloud.training.recipes.tiny_recipes import TinyNet

    model = TinyNet(1)
    model.conv.requires_grad_(False)
    averaged = fitted(tmp_path, model=model)
    assert torch.equal(averaged.conv.weight, TinyNet(1).conv.weight)
    assert not torch.equal(averaged.head.weight, TinyNet(1).head.weight)


@pytest.mark.parametrize(
    "change",
    ["data", "fitting", "key", "momentum"],
)
def test_a_checkpoint_of_other_data_or_settings_is_refused(tmp_path: Path, change: str) -> None:
    from tests.cloud.training.recipes.tiny_recipes import tiny_data

    images, labels = tiny_data()
    fitted(tmp_path)
    other = {
        "data": (images ^ 1, labels), "fitting": FITTING.model_copy(update={"weight_decay": 0.5}),
        "key": "another recipe", "momentum": 0.5,
    }  # fmt: skip
    listener = Listener()
    fitted(tmp_path, listener, **{change: other[change]})
    assert any(m.kind == "said" and "another run or other data" in m.text for m in listener.heard)
    assert listener.steps[0] == 3


@pytest.mark.parametrize(
    ("change", "goes_on"),
    [("last bits", True), ("made_from", False), ("images", False), ("rows", False)],
)
def test_fractions_that_are_computed_count_by_what_they_are_made_from(
    tmp_path: Path, change: str, goes_on: bool
) -> None:
    import torch

    from tests.cloud.training.recipes.tiny_recipes import plain_loss, tiny_data

    images, labels = tiny_data()
    soft = torch.full((len(labels), 3), 1 / 3)
    first = {"data": (images, labels, soft), "made_from": "[hashes]", "loss": plain_loss}
    fitted(tmp_path, **first)
    other = {
        "last bits": {"data": (images, labels, torch.nextafter(soft, torch.ones(())))},
        "made_from": {"made_from": "[other hashes]"},
        "images": {"data": (images ^ 1, labels, soft)},
        "rows": {"data": (images[1:], labels[1:], soft[1:])},
    }[change]
    listener = Listener()
    fitted(tmp_path, listener, **(first | other))
    refused = any(m.kind == "said" and "another run" in m.text for m in listener.heard)
    assert refused is not goes_on


def test_data_that_cannot_be_fitted_is_refused_in_words(tmp_path: Path) -> None:
    from tests.cloud.training.recipes.tiny_recipes import TinyNet, tiny_data

    images, labels = tiny_data()
    with pytest.raises(Malformed, match=r"data: \[95, 96\] rows"):
        fitted(tmp_path, data=(images, labels[1:]))
    with pytest.raises(Malformed, match=r"data: \[0\] rows"):
        fitted(tmp_path, data=(images[:0], labels[:0]))
    with pytest.raises(Malformed, match=r"fitting\.patience: nothing is validated"):
        fitted(tmp_path, fitting=FITTING.model_copy(update={"patience": 1}))
    with pytest.raises(Malformed, match="no weight of it may change"):
        fitted(tmp_path, model=TinyNet(1).requires_grad_(False))


@pytest.mark.parametrize("steps", range(1, 8))
def test_a_few_steps_are_enough(tmp_path: Path, steps: int) -> None:
    listener = Listener()
    fitted(tmp_path, listener, fitting=Fitting(epochs=steps, batch=96))
    assert listener.steps[-1] == steps


def test_it_learns(tmp_path: Path) -> None:
    from tests.cloud.training.recipes.tiny_recipes import tiny_validation

    model = fitted(
        tmp_path, fitting=Fitting(epochs=40, batch=16, learning_rate=0.1), average_decay=0.9
    )
    assert tiny_validation(model) < 0.3
