"""`hybridge-cloud train-worker`: run training jobs until SIGTERM."""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cloud.running import EXIT_FORCED, on_signals, run
from shared.errors import Malformed
from shared.logs import set_up

if TYPE_CHECKING:
    from cloud.training.worker.config import WorkerConfig

NAME = "train-worker"


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    worker = commands.add_parser(
        NAME, help="run training jobs, each in a process of its own, until SIGTERM",
        epilog="Exit codes: 0 every job given back, 1 cut short or not started, 2 wrong settings, "
        f"{EXIT_FORCED} told twice to end",
    )  # fmt: skip
    worker.add_argument(
        "--config", type=Path, metavar="FILE", required=True, help="TOML; see docs/training.md"
    )
    worker.add_argument("--name", help="one of its own for each worker")
    worker.add_argument("--state-dir", type=Path, metavar="DIR")
    worker.add_argument("--cpus", type=int, metavar="N", help="threads of all its jobs together")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 after a clean drain, 1 when cut or a part died, 2 for wrong settings."""
    from cloud.training.worker.apart import give_way  # noqa: PLC0415  --help stays quick

    try:
        config = _config(arguments)
    except Malformed as error:
        print(f"hybridge-cloud: {error}", file=sys.stderr)
        return 2
    set_up(config.log_level)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of every plugin
    give_way(config.worker)
    return run(lambda: _serve(config), "train_worker_not_started")


async def _serve(config: "WorkerConfig") -> bool:
    from cloud.training.worker.service import TrainWorkerService  # noqa: PLC0415  --help stays quick

    service = TrainWorkerService(config, _say_ready)
    on_signals(service)
    return await service.run()


def _say_ready(name: str, apart: str) -> None:
    """One line on stdout, for whoever started this."""
    print(
        json.dumps({"event": "train_worker_ready", "worker": name, "kept_apart_by": apart}),
        flush=True,
    )


def _config(arguments: argparse.Namespace) -> "WorkerConfig":
    """The file's settings, with what the command line says on top. Raises `Malformed`."""
    from cloud.training.worker.config import load  # noqa: PLC0415

    over: dict[str, object] = {}
    if arguments.state_dir:
        over["state_dir"] = arguments.state_dir
    worker = {"name": arguments.name, "cpus": arguments.cpus}
    if given := {name: value for name, value in worker.items() if value is not None}:
        over["worker"] = given
    return load(arguments.config, over)
