"""One fitting from its first step, or from a checkpoint, to its end."""

import math
import time
from copy import deepcopy
from typing import TYPE_CHECKING, cast

import torch
from ignite.engine import Engine, Events
from ignite.handlers import EarlyStopping, TerminateOnNan
from torch import Tensor, nn

from cloud.training.recipes import sgd
from cloud.training.recipes.checkpoint import Checkpoints, State, loads
from cloud.training.recipes.failing import LossNotFinite
from cloud.training.recipes.ranks import Ranks
from cloud.training.recipes.run_key import run_key
from cloud.training.recipes.saying import Saying, StopAsked
from cloud.training.recipes.turns import every, rows_of_epoch, rows_per_epoch

if TYPE_CHECKING:
    from cloud.training.recipes.loop import FitTask

MEASURED_S = 1.0
"""Between two messages of a step's loss: people and plots need no more."""
PLATEAU = 0.005
"""An epoch whose validation loss is less than this share below the best has made nothing better: what
averages over many steps would else creep down for ever."""
_EPOCH_SEEDS = 10_000


class RunEnded(BaseException):
    """This process helped to fit; what follows is rank 0's work alone."""


class Run:
    """Holds everything that a step changes, so that one checkpoint is all of it."""

    def __init__(self, task: "FitTask", out: Saying, ranks: Ranks) -> None:
        self._task, self._out, self._ranks = task, out, ranks
        fitting = task.fitting
        self._turns = task.turns or every(len(task.data[0]))
        self._epoch_rows = rows_per_epoch(self._turns)
        self._epoch_steps = -(-self._epoch_rows // fitting.batch)
        self._steps = fitting.epochs * self._epoch_steps
        self._model = task.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        self._averaged = deepcopy(self._model).eval()
        self._optimizer, self._schedule = sgd.optimizer(
            self._model, fitting, self._steps, momentum=task.momentum, warm_share=task.warm_share
        )
        self._network = ranks.wrapped(self._model)
        self._bf16 = fitting.bf16 and sgd.computes_in_bf16()
        self._engine = Engine(self._step)
        self._engine.add_event_handler(Events.EPOCH_STARTED, self._begin_epoch)
        self._engine.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
        self._engine.add_event_handler(Events.ITERATION_COMPLETED, self._after_step)
        self._engine.add_event_handler(Events.EPOCH_COMPLETED, self._after_epoch)
        self._validation: float = math.inf
        self._stopping = EarlyStopping(
            fitting.patience or self._steps, lambda _: self._validation, self._engine, mode="min",
            threshold=PLATEAU, threshold_mode="rel",
        )  # fmt: skip
        self._checkpoints = Checkpoints(task.checkpoints, run_key(task, ranks.count), task.kept)
        self._generator = torch.Generator()
        self._order: tuple[Tensor, ...] = ()
        self._drawn: Tensor | None = None  # the generator's state in the middle of an epoch
        self._before: State = {}  # what a forward pass changes, before this step
        self._best: dict[str, Tensor] = {}
        self._loss = self._loss_sum = 0.0
        self._not_finite = ""
        self._stop = self._due = self._ended = False
        self._saved_at = self._measured_at = time.monotonic()

    def fitted(self) -> nn.Module:
        """See `loop.fit`."""
        step = self._resume()
        if not self._ended:
            if any(self._ranks.summed((float(self._out.stop_asked),))):
                raise StopAsked(step)
            self._engine.load_state_dict({
                "iteration": step, "epoch_length": self._epoch_steps,
                "max_epochs": self._task.fitting.epochs,
            })  # fmt: skip
            self._engine.run()
        if self._not_finite:
            raise LossNotFinite(self._not_finite, self._engine.state.iteration)
        if self._stop and not self._ended:
            raise StopAsked(self._engine.state.iteration)
        if self._best:
            self._averaged.load_state_dict(self._best)
        return self._averaged.eval()

    def _begin_epoch(self, engine: Engine) -> None:
        # One generator for each epoch: a resumed run sees the batches that it would have seen.
        fitting = self._task.fitting
        self._generator.manual_seed(fitting.seed * _EPOCH_SEEDS + engine.state.epoch - 1)
        rows = rows_of_epoch(self._turns, engine.state.epoch - 1)
        drawn = torch.randperm(len(rows), generator=self._generator)
        self._order = rows[drawn].split(fitting.batch)
        if self._ranks.rank > 0:
            # The order is everybody's, what is drawn for a row is its own process's.
            self._generator.manual_seed(self._generator.initial_seed() + self._ranks.rank * 2**40)
        if self._drawn is None:
            self._loss_sum = 0.0
        else:
            self._generator.set_state(self._drawn)
            self._drawn = None
        self._model.train()

    def _step(self, engine: Engine, _: None) -> float:
        """Weights change only when loss and gradients are finite on every rank."""
        late = engine.state.epoch - 1 >= self._task.fitting.epochs * 3 // 4
        loss_of = self._task.late_loss if late and self._task.late_loss else self._task.loss
        chosen = self._order[(engine.state.iteration - 1) % self._epoch_steps]
        mine = chosen[self._ranks.rank :: self._ranks.count]
        # DDP averages over ranks; weighted so, that average is the mean over the batch's rows.
        weight = len(mine) * self._ranks.count / len(chosen)
        mine = mine if len(mine) else chosen[:1]
        self._before = {
            "generator": self._generator.get_state(), "torch": torch.get_rng_state(),
            "buffers": [buffer.clone() for buffer in self._model.buffers()],
        }  # fmt: skip
        loss = loss_of(
            self._answers, tuple(part[mine] for part in self._task.data), self._generator
        )
        value, bad, stop, due = self._ranks.summed((
            loss.item() * len(mine) * (weight > 0), not torch.isfinite(loss),
            self._out.stop_asked, self._ranks.rank == 0 and self._checkpoint_is_due(),
        ))  # fmt: skip
        self._stop, self._due = stop > 0, due > 0
        if bad:
            return self._refused("the loss")
        self._optimizer.zero_grad(set_to_none=True)
        (loss * weight if self._ranks.count > 1 else loss).backward()  # type: ignore[no-untyped-call]
        slopes = [p.grad for p in self._model.parameters() if p.grad is not None]
        if not torch.isfinite(nn.utils.get_total_norm(slopes)):
            return self._refused("a gradient")
        self._optimizer.step()
        self._schedule.step()
        sgd.average(self._averaged, self._model, self._task.average_decay, engine.state.iteration)
        self._loss_sum += value
        self._loss = value / len(chosen)
        return self._loss

    def _answers(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            return cast("Tensor", self._network(x))

    def _refused(self, what: str) -> float:
        self._not_finite = what
        for buffer, kept in zip(self._model.buffers(), self._before["buffers"], strict=True):
            buffer.copy_(kept)
        self._generator.set_state(self._before["generator"])
        torch.set_rng_state(self._before["torch"])
        return math.nan

    def _after_step(self, engine: Engine) -> None:
        step = engine.state.iteration
        if self._not_finite:
            self._save(step - 1)
            return
        if step % self._epoch_steps == 0:
            return  # the epoch's end comes at once, with its validation
        if self._stop or self._due:
            self._save(step)
        if self._stop:
            engine.terminate(skip_completed=True)
        elif time.monotonic() - self._measured_at >= MEASURED_S:
            self._measured(step, {"loss": self._loss})

    def _after_epoch(self, engine: Engine) -> None:
        step = engine.state.iteration
        values = {"loss": self._loss_sum / self._epoch_rows}
        if self._task.validate is not None:
            mine = self._task.validate(self._averaged.eval()) if self._ranks.rank == 0 else 0.0
            (self._validation,) = self._ranks.first((float(mine),))
            if not math.isfinite(self._validation):
                self._not_finite = "the validation loss"
                engine.terminate()
                return
            values["validation.loss"] = self._validation
            if self._task.fitting.patience is not None:
                lowest = self._stopping.best_score
                self._stopping(engine)
                if lowest is None or self._validation < lowest:
                    self._best = deepcopy(self._averaged.state_dict())
                if self._stopping.counter and engine.should_terminate:
                    self._out.said(f"no better validation loss in {self._stopping.counter} epochs")
        self._ended = bool(engine.should_terminate) or step == self._steps
        self._measured(step, values)
        self._save(step)
        if self._stop and not self._ended:
            engine.terminate(skip_completed=True)

    def _measured(self, step: int, values: dict[str, float]) -> None:
        self._measured_at = time.monotonic()
        begin, end = self._task.progress
        share = 1.0 if self._ended else step / self._steps
        rate = cast("float", self._schedule.get_last_lr()[0])
        if self._ranks.rank == 0:
            self._out.measured(
                step, begin + (end - begin) * share, {**values, "learning_rate": rate}
            )

    def _checkpoint_is_due(self) -> bool:
        return time.monotonic() - self._saved_at >= self._task.checkpoint_s

    def _save(self, step: int) -> None:
        within = step % self._epoch_steps > 0
        drawn = self._ranks.gathered(self._generator.get_state())
        torch_state = self._ranks.gathered(torch.get_rng_state())
        if self._ranks.rank > 0:
            return
        state = {
            "model": self._model.state_dict(), "averaged": self._averaged.state_dict(),
            "optimizer": self._optimizer.state_dict(), "schedule": self._schedule.state_dict(),
            "stopping": dict(self._stopping.state_dict()), "best": self._best,
            "drawn": drawn if within else None, "torch": torch_state,
            "loss_sum": self._loss_sum, "ended": self._ended, "bf16": self._bf16,
        }  # fmt: skip
        path = self._checkpoints.save(step, state)
        self._saved_at = time.monotonic()
        self._out.checkpointed(step, path)

    def _resume(self) -> int:
        """The step that is done; rank 0 reads, the others are sent what it read."""
        step, payload = 0, None
        if self._ranks.rank == 0:
            found = self._checkpoints.newest()
            for words in found.refused:
                self._out.said(f"checkpoint refused: {words}")
            if found.refused:
                self._out.measured(
                    0, self._task.progress[0], {"checkpoints.refused": len(found.refused)}
                )
            if found.resumed is not None:
                step, payload = found.resumed.step, found.resumed.payload
                self._out.said(f"goes on from step {step} of {self._steps}")
        payload = self._ranks.first_bytes(payload)
        (first,) = self._ranks.first((float(step),))
        if payload is not None:
            self._load(loads(payload, "checkpoint"))
        return int(first)

    def _load(self, state: State) -> None:
        self._model.load_state_dict(state["model"])
        self._averaged.load_state_dict(state["averaged"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._schedule.load_state_dict(state["schedule"])
        self._stopping.load_state_dict(state["stopping"])
        self._best = state["best"]
        self._drawn = None if state["drawn"] is None else state["drawn"][self._ranks.rank].clone()
        self._loss_sum, self._ended = state["loss_sum"], state["ended"]
        if state["bf16"] != self._bf16:
            self._out.said(
                "this CPU's arithmetic is another than that of the steps before: other weights"
            )
        torch.set_rng_state(state["torch"][self._ranks.rank].clone())
