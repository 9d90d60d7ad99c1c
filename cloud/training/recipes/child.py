"""A job's own process: `python -m cloud.training.recipes.child`, an `Order` on stdin.

It says on stdout what `child_messages` has, and nothing else: what libraries print goes to stderr.
SIGTERM lets it write a checkpoint at the next step and end. It ends with the process that started
it, which therefore starts it from a thread that lasts.
"""

import os
import signal
import sys
from collections.abc import Callable
from enum import IntEnum
from importlib import import_module

from pydantic import ValidationError

from cloud.training.child_messages import Order
from cloud.training.recipes import surroundings
from cloud.training.recipes.failing import RankLost, failed
from cloud.training.recipes.saying import Saying, StopAsked
from shared.config import in_words
from shared.errors import Malformed, Unknown
from shared.parent_process import end_with_parent

ORDER_BYTES_MAX = 1 << 20
RECIPES = "cloud.training.recipes.table"
ONE_PROCESS = frozenset({"quantize", "fp16"})
"""Kinds of recipe that fit nothing: more processes would only do the same."""


class Exit(IntEnum):
    MADE = 0
    FAILED = 1
    """`Failed` was said."""
    LOST = 70
    """No last word: a process of it ended by itself. Begun again, it may succeed."""
    STOPPED = 75
    """`Stopped` was said."""


def main(recipes: str = RECIPES) -> int:
    """`recipes`: the module whose `RECIPES` has them."""
    parent = os.getppid()
    lines = Messages()
    out = Saying(lines)
    signal.signal(signal.SIGTERM, lambda *_: out.ask_to_stop())
    end_with_parent(parent)
    return ended(out, lambda: _work(lines, out, recipes))


class Messages:
    """Takes stdout for messages alone: what else writes there writes to stderr from now on."""

    def __init__(self) -> None:
        self._number = os.dup(1)
        os.dup2(2, 1)

    def __call__(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._number, rest) :]


def ended(out: Saying, work: Callable[[], Exit]) -> Exit:
    """Does it, and says how it ended."""
    try:
        return work()
    except StopAsked as stop:
        out.stopped(stop.step)
        return Exit.STOPPED
    except RankLost as lost:
        out.said(str(lost))
        return Exit.LOST
    except BrokenPipeError:
        return Exit.LOST  # nobody listens any more: whoever takes the job over goes on with it
    except Exception as error:  # noqa: BLE001  the last word about a job, whatever went wrong
        sys.excepthook(*sys.exc_info())
        why = failed(error)
        out.failed(why.reason, why.words, why.step)
        return Exit.FAILED


def _work(lines: Messages, out: Saying, recipes: str) -> Exit:
    order = read_order(sys.stdin.buffer.readline(ORDER_BYTES_MAX + 1))
    surroundings.prepare(order.threads)
    if order.processes > 1 and order.recipe.kind not in ONE_PROCESS:
        if order.engine == "ray":
            return _engine_ray()(order, out, recipes)
        from cloud.training.recipes.distributed import launch  # noqa: PLC0415  torch

        return launch(order, lines, out, recipes)
    if order.engine == "ray":
        out.said("engine ray: one process is this machine's own work; give processes for more")
    surroundings.steady(order.threads)
    return run(order, out, recipes)


def _engine_ray() -> Callable[[Order, Saying, str], Exit]:
    try:
        from cloud.training.recipes.ray_engine import launch  # noqa: PLC0415  torch and Ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise Unknown("engine ray: Ray is not installed here; install hybridge[ray]") from error
    return launch


def run(order: Order, out: Saying, recipes: str) -> Exit:
    """The recipe, in this process. `surroundings` are as they should be."""
    from cloud.training.recipes.checkpoint import newest_step  # noqa: PLC0415  torch

    out.stop_if_asked()
    out.started(
        order.recipe.model_dump(mode="json"),
        surroundings.machine(order.threads, order.processes),
        newest_step(order.folder / "checkpoints"),
    )
    out.made(import_module(recipes).RECIPES[order.recipe.kind](order, out))
    return Exit.MADE


def read_order(document: bytes) -> Order:
    """Raises `Malformed`."""
    if len(document) > ORDER_BYTES_MAX:
        raise Malformed(f"order: over {ORDER_BYTES_MAX} bytes")
    try:
        return Order.model_validate_json(document)
    except ValidationError as error:
        raise Malformed(f"order: {in_words(error)}") from error


if __name__ == "__main__":
    sys.exit(main())
