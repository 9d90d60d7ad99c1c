"""`hybridge-cloud registry`: run a registry, or one of its evaluators, until SIGTERM."""

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
    from cloud.registry.config import RegistryConfig

NAME = "registry"


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    registry = commands.add_parser(
        NAME, help="keep models, evaluate and release them, until SIGTERM",
        epilog="Exit codes: 0 drained, 1 cut short or not started, 2 wrong settings, "
        f"{EXIT_FORCED} told twice to end",
    )  # fmt: skip
    registry.add_argument("--config", type=Path, metavar="FILE", help="TOML; see docs/registry.md")
    registry.add_argument("--name", help="this registry's, for people and its replicas")
    registry.add_argument("--state-dir", type=Path, metavar="DIR")
    registry.add_argument("--api-port", type=int, metavar="N", help="0 picks a free one")
    registry.add_argument(
        "--alone", action="store_true",
        help="be home though none of the peers answers: only where they are lost for good",
    )  # fmt: skip
    registry.add_argument("--child", choices=("evaluator",), help=argparse.SUPPRESS)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 after a clean drain, 1 when cut or a part died, 2 for wrong settings."""
    try:
        config = _config(arguments)
    except Malformed as error:
        print(f"hybridge-cloud: {error}", file=sys.stderr)  # noqa: T201  before there is a log
        return 2
    set_up(config.log_level)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of every plugin
    if arguments.child is not None:
        return run(lambda: _evaluate(config), "evaluator_not_started")
    return run(lambda: _serve(config, arguments), "registry_not_started")


async def _serve(config: "RegistryConfig", arguments: argparse.Namespace) -> bool:
    from cloud.registry.service import RegistryService  # noqa: PLC0415  --help stays quick

    service = RegistryService(config, _child_arguments(arguments), _say_ready, arguments.alone)
    on_signals(service)
    return await service.run()


async def _evaluate(config: "RegistryConfig") -> bool:
    from cloud.registry.evaluating import EvaluatorChild  # noqa: PLC0415

    child = EvaluatorChild(config)
    on_signals(child)
    return await child.run()


def _child_arguments(arguments: argparse.Namespace) -> tuple[str, ...]:
    """What a child process reads its settings from: as this one does."""
    found: list[str] = []
    for option, value in (
        ("--config", arguments.config), ("--name", arguments.name),
        ("--state-dir", arguments.state_dir),
    ):  # fmt: skip
        if value is not None:
            found += [option, str(value)]
    return (NAME, *found, "--child", "evaluator")


def _say_ready(api: str) -> None:
    """One line on stdout, for whoever started this."""
    print(json.dumps({"event": "registry_ready", "api": api}), flush=True)  # noqa: T201


def _config(arguments: argparse.Namespace) -> "RegistryConfig":
    """The file's settings, with what the command line says on top. Raises `Malformed`."""
    from cloud.registry.config import load, parse  # noqa: PLC0415

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
