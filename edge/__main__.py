"""`hybridge-edge run` and `hybridge-edge doctor`.

Exit codes: 0 after an orderly end, 1 when it cannot run here and now, 2 for a wrong command line
or configuration.
"""

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from edge import service
from edge.agent import Agent
from edge.config import load
from shared import doctor, logs
from shared.errors import HybridgeError, Malformed

log = logging.getLogger("edge")


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.command == "doctor":
        return _doctor(asked.bundle, as_json=asked.json)
    return _run(asked.config)


def _run(path: Path) -> int:
    try:
        config = load(path)
    except Malformed as error:
        return _failed(error, 2)
    logs.set_up(config.log_level)
    try:
        asyncio.run(service.run(config, _say_ready))
    except (HybridgeError, BaseExceptionGroup) as error:
        return _failed(_expected(error), 1)
    return 0


def _say_ready(agent: Agent, url: str) -> None:
    line = {"event": "agent_ready", "api": url, "device": agent.device_id, "engine": agent.engine}
    print(json.dumps(line), flush=True)  # noqa: T201  what a supervisor waits for


def _doctor(bundle: Path | None, *, as_json: bool) -> int:
    report = doctor.report(bundle)
    print(doctor.as_json(report) if as_json else doctor.render(report))  # noqa: T201
    return 0 if report.healthy else 1


def _failed(error: BaseException, code: int) -> int:
    print(f"hybridge-edge: {error}", file=sys.stderr)  # noqa: T201
    return code


def _expected(error: BaseException) -> HybridgeError:
    """The error that ended a part, out of its TaskGroup's wrapping; anything else is a bug."""
    while isinstance(error, BaseExceptionGroup):
        known = error.subgroup(HybridgeError)
        if known is None:
            raise error
        error = known.exceptions[0]
    assert isinstance(error, HybridgeError)
    return error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hybridge-edge", description="The Hybridge edge agent.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the agent until SIGTERM")
    run.add_argument("--config", type=Path, required=True, help="a TOML file")
    look = commands.add_parser("doctor", help="say what this machine can run, and why not the rest")
    look.add_argument("--bundle", type=Path, help="rank this bundle's variants too")
    look.add_argument("--json", action="store_true", help="for programs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
