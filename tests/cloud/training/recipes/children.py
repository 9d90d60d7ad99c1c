"""Starts real children of a job and reads what they say."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cloud.training.child_messages import MESSAGES, Message, Order
from cloud.training.documents import Fitting, Supervised

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.cloud.training.recipes.tiny_child",
        "tests.cloud.training.recipes.tiny_recipes",
        "torch._inductor.config",  # what torch's determinism switch loads
        "torch._dynamo",
    ]
)


def an_order(
    folder: Path, name: str = "tiny", fitting: Fitting | None = None, **more: object
) -> Order:
    recipe = Supervised(
        version="1.0.0", name=name, network="edge-net", base="none",
        fitting=fitting or Fitting(epochs=3, batch=32, seed=3),
    )  # fmt: skip
    return Order.model_validate({"job": "job-1", "recipe": recipe, "folder": folder, **more})


class Child:
    def __init__(self, pipe: BinaryIO, process: multiprocessing.Process) -> None:
        self._pipe, self.process = pipe, process

    def says(self) -> Iterator[Message]:
        for line in self._pipe:
            yield MESSAGES.validate_json(line)

    def ends(self) -> int:
        self.process.join()
        assert self.process.exitcode is not None
        return self.process.exitcode


@contextmanager
def forked_child(order: Order) -> Iterator[Child]:
    """Killed at the end, if it lives."""
    from tests.cloud.training.recipes.tiny_child import forked

    order.folder.mkdir(parents=True, exist_ok=True)
    document, messages = order.folder / "given.json", order.folder / "messages"
    document.write_text(order.model_dump_json())
    messages.unlink(missing_ok=True)
    os.mkfifo(messages)
    process = _CONTEXT.Process(target=forked, args=(str(document), str(messages)))
    process.start()
    with messages.open("rb") as pipe:
        try:
            yield Child(pipe, process)
        finally:
            process.kill()
            process.join()


def whole_run(order: Order) -> tuple[list[Message], int]:
    """Of a child begun as the worker begins it."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.cloud.training.recipes.tiny_child"],
        input=order.model_dump_json().encode() + b"\n",
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    return [MESSAGES.validate_json(line) for line in ended.stdout.splitlines()], ended.returncode
