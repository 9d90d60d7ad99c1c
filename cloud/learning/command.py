"""`hybridge-cloud learning`: keep a region's feedback, training jobs and loops until SIGTERM."""

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
    from cloud.learning.config import LearningConfig

NAME = "learning"


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    learning = commands.add_parser(
        NAME, help="keep a region's feedback, training jobs and loops, until SIGTERM",
        epilog="Exit codes: 0 drained, 1 cut short or not started, 2 wrong settings, "
        f"{EXIT_FORCED} told twice to end",
    )  # fmt: skip
    learning.add_argument("--config", type=Path, metavar="FILE", help="TOML; see docs/loop.md")
    learning.add_argument("--name", help="this region's, for people")
    learning.add_argument("--state-dir", type=Path, metavar="DIR")
    learning.add_argument("--api-port", type=int, metavar="N", help="0 picks a free one")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 after a clean drain, 1 when cut or a part died, 2 for wrong settings."""
    try:
        config = _config(arguments)
    except Malformed as error:
        print(f"hybridge-cloud: {error}", file=sys.stderr)  # noqa: T201  before there is a log
        return 2
    set_up(config.log_level)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of every plugin
    return run(lambda: _serve(config), "learning_not_started")


async def _serve(config: "LearningConfig") -> bool:
    from cloud.learning.service import LearningService  # noqa: PLC0415  --help stays quick

    service = LearningService(config, _say_ready)
    on_signals(service)
    return await service.run()


def _say_ready(api: str) -> None:
    """One line on stdout, for whoever started this."""
    print(json.dumps({"event": "learning_ready", "api": api}), flush=True)  # noqa: T201


def _config(arguments: argparse.Namespace) -> "LearningConfig":
    """The file's settings, with what the command line says on top. Raises `Malformed`."""
    from cloud.learning.config import load, parse  # noqa: PLC0415

    over: dict[str, object] = {}
    if arguments.name:
        over["name"] = arguments.name
    if arguments.state_dir:
        over["state_dir"] = arguments.state_dir
    if arguments.api_port is not None:
        over["api"] = {"port": arguments.api_port}
    if arguments.config is not None:
        return load(arguments.config, over)
    return parse(over, "command line")
