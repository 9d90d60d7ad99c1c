"""What a job says while it works: one document of `child_messages` a line, and whether it is to stop."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import JsonValue

from cloud.training.child_messages import (
    LINE_BYTES_MAX,
    Checkpointed,
    Failed,
    Made,
    Measured,
    Message,
    Said,
    Started,
    Stopped,
)

_TEXT_MAX, _WORDS_MAX, _VALUES_MAX = 2000, 1000, 64


class StopAsked(BaseException):
    """It was asked to stop, and its state is in a checkpoint. No `Exception`: nothing on the way
    may take it for a failure of its own.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"asked to stop at step {step}")
        self.step = step


class Saying:
    """Goes through the engine and every recipe. `write` takes one line with its line break."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._stop_asked = False
        self._step = 0

    @property
    def stop_asked(self) -> bool:
        return self._stop_asked

    def ask_to_stop(self) -> None:
        """From a signal handler, too: it sets a flag and no more."""
        self._stop_asked = True

    def stop_if_asked(self) -> None:
        """For a recipe, between two long pieces of work. Raises `StopAsked`."""
        if self._stop_asked:
            raise StopAsked(self._step)

    def started(
        self, parameters: dict[str, JsonValue], machine: str, resumed_step: int | None
    ) -> None:
        self._say(Started(parameters=parameters, machine=machine, resumed_step=resumed_step))

    def measured(self, step: int, progress: float, values: Mapping[str, float]) -> None:
        """Values that are no finite numbers are left out: JSON has no word for them."""
        self._step = step
        finite = [(name, value) for name, value in values.items() if math.isfinite(value)]
        self._say(
            Measured(
                step=step, progress=min(max(progress, 0.0), 1.0), values=dict(finite[:_VALUES_MAX])
            )
        )

    def said(self, text: str) -> None:
        self._say(Said(text=text[:_TEXT_MAX]))

    def checkpointed(self, step: int, path: Path) -> None:
        self._step = step
        self._say(Checkpointed(step=step, path=path))

    def stopped(self, step: int) -> None:
        self._say(Stopped(step=step))

    def failed(self, reason: str, words: str, step: int | None = None) -> None:
        self._say(Failed(reason=reason, words=words[:_WORDS_MAX], step=step))

    def made(self, made: Made) -> None:
        self._say(made)

    def _say(self, message: Message) -> None:
        line = message.model_dump_json().encode() + b"\n"
        if len(line) > LINE_BYTES_MAX:
            self.said(f"{message.kind}: {len(line)} bytes is over {LINE_BYTES_MAX}, left out")
            return
        self._write(line)
