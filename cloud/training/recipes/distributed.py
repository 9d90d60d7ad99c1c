"""Several processes for one job, on this machine: torchrun's agent starts them and watches them.

    child ── torch.distributed.elastic ──┬── rank 0   speaks, validates, checkpoints, makes the bundle
                                         └── rank 1.. its part of every batch

A rank that ends by itself takes the attempt with it; the next goes on from the last checkpoint.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from pydantic import ValidationError
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from cloud.training.child_messages import (
    LINE_BYTES_MAX,
    MESSAGES,
    Failed,
    Made,
    Message,
    Order,
    Stopped,
)
from cloud.training.recipes.child import Exit
from cloud.training.recipes.failing import RankLost
from cloud.training.recipes.saying import Saying
from shared.disk import write_whole

LOOPBACK = "127.0.0.1"
STOP_S = 600
"""For ranks to write a checkpoint; whoever asked for the stop has a shorter patience of its own."""


def launch(order: Order, lines: Callable[[bytes], None], out: Saying, recipes: str) -> Exit:
    """Runs `rank` in `order.processes` processes; `lines` gets what rank 0 says.

    Raises `RankLost` when no last word came.
    """
    written = order.folder / "order.json"
    write_whole(written, order.model_dump_json().encode())
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # a machine's own name may lead to no address of it
    out.stop_if_asked()
    with _Heard(lines) as heard:
        lost = _agent(order.processes, order.folder, (str(written), recipes))
    match heard.last:
        case Made():
            return Exit.MADE
        case Stopped():
            return Exit.STOPPED
        case Failed():
            return Exit.FAILED
        case _:
            raise RankLost(lost or "a process of the job ended without a word")


def _agent(processes: int, folder: Path, arguments: tuple[str, ...]) -> str:
    """Which rank ended by itself, in words; nothing: none did."""
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=processes, run_id=folder.name or "job",
        # Port 0: the agent's own store takes a free one, and nobody can take it in between.
        rdzv_backend="c10d", rdzv_endpoint=f"{LOOPBACK}:0", local_addr=LOOPBACK,
        max_restarts=0, logs_specs=DefaultLogsSpecs(log_dir=str(folder / "ranks")),
        shutdown_timeout=STOP_S,
    )  # fmt: skip
    command = elastic_launch(config, sys.executable)
    try:
        command("-m", "cloud.training.recipes.rank", *arguments)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        return f"rank {rank} of {processes} {_end(failure)}; the attempt is lost"
    except SignalException:
        pass  # asked to stop: what rank 0 said last is what counts
    return ""


def _end(failure: ProcessFailure) -> str:
    if failure.exitcode < 0:
        return f"was ended by {failure.signal_name()}"
    return f"ended with {failure.exitcode}"


class _Heard:
    """What processes started meanwhile write to stdout, handed on line by line up to a last word."""

    def __init__(self, lines: Callable[[bytes], None]) -> None:
        self._lines = lines
        self.last: Message | None = None
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._read, write = os.pipe()
        os.dup2(write, 1)
        os.close(write)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(2, 1)  # the last writer here; the others' ends are closed with them
        self._thread.join()

    def _listen(self) -> None:
        with open(self._read, "rb") as pipe:  # noqa: PTH123  a number, no path
            while line := pipe.readline(LINE_BYTES_MAX):
                if self.last is None:
                    self._hand_on(line)

    def _hand_on(self, line: bytes) -> None:
        try:
            message = MESSAGES.validate_json(line)
        except ValidationError:
            return  # half a line of one that was killed
        if isinstance(message, Made | Stopped | Failed):
            self.last = message
        self._lines(line)
