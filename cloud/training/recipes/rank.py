"""One of several processes of a job: `python -m cloud.training.recipes.rank ORDER RECIPES`."""

import os
import signal
import sys
from pathlib import Path

from cloud.training.child_messages import Order
from cloud.training.recipes import surroundings
from cloud.training.recipes.child import Exit, Messages, ended, read_order, run
from cloud.training.recipes.failing import RankLost
from cloud.training.recipes.saying import Saying
from shared.parent_process import end_with_parent


def main(order_file: str, recipes: str) -> int:
    """`RANK` and the rest are in the environment, as torchrun sets it."""
    parent = os.getppid()
    rank = int(os.environ["RANK"])
    lines = Messages()
    out = Saying(lines) if rank == 0 else Saying(_FailuresAlone(lines))
    signal.signal(signal.SIGTERM, lambda *_: out.ask_to_stop())
    end_with_parent(parent)
    order = read_order(Path(order_file).read_bytes())
    surroundings.prepare(order.threads)
    from cloud.training.recipes.ranks import join_local  # noqa: PLC0415  torch

    def work() -> Exit:
        surroundings.steady(order.threads)
        join_local()
        return together(order, out, recipes)

    return ended(out, work)


def together(order: Order, out: Saying, recipes: str) -> Exit:
    """The recipe as one of several ranks, whose group is joined. Raises `RankLost`."""
    from cloud.training.recipes.ranks import is_lost, leave  # noqa: PLC0415  torch
    from cloud.training.recipes.run import RunEnded  # noqa: PLC0415  torch

    try:
        end = run(order, out, recipes)
    except RunEnded:
        end = Exit.MADE
    except Exception as error:
        if is_lost(error):
            raise RankLost(f"another process of the job is gone: {error}") from error
        raise
    leave()
    return end


class _FailuresAlone:
    """Of what a rank after the first says: why it failed, and nothing else."""

    def __init__(self, lines: Messages) -> None:
        self._lines = lines

    def __call__(self, line: bytes) -> None:
        if line.startswith(b'{"kind":"failed"'):
            self._lines(line)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
