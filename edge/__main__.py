"""`hybridge-edge run`, `doctor`, `updates` and `enrol`.

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

ACTIONS = {
    "status": "say where updates stand",
    "check": "look at the registry now",
    "rollback": "go back to a version that is kept, and stay there",
    "resume": "after a rollback: take newer versions again",
}


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.command == "doctor":
        return _doctor(asked.bundle, as_json=asked.json)
    if asked.command == "status":
        return _status(asked.config, as_json=asked.json)
    if asked.command == "updates":
        return _updates(asked)
    if asked.command == "enrol":
        return _enrol(asked)
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


def _status(path: Path, *, as_json: bool) -> int:
    from edge.status_command import fetch, words  # noqa: PLC0415  only here

    try:
        config = load(path)
    except Malformed as error:
        return _failed(error, 2)
    try:
        status = fetch(config.state_dir)
    except HybridgeError as error:
        return _failed(error, 1)
    print(status.model_dump_json(indent=2) if as_json else words(status))  # noqa: T201
    return 0


def _updates(asked: argparse.Namespace) -> int:
    from edge.updates.command import ask, words  # noqa: PLC0415  only here

    try:
        config = load(asked.config)
    except Malformed as error:
        return _failed(error, 2)
    body: dict[str, object] = {}
    if asked.action == "check":
        body["retry"] = asked.retry
    elif asked.action == "rollback":
        body["version"] = asked.to
    try:
        status = ask(config, asked.action, body)
    except HybridgeError as error:
        return _failed(error, 1)
    print(status.model_dump_json(indent=2) if asked.json else words(status))  # noqa: T201
    return 0


def _enrol(asked: argparse.Namespace) -> int:
    from edge.identity.command import token_from, words  # noqa: PLC0415  only here
    from edge.identity.enrol import enrol  # noqa: PLC0415

    try:
        config, token = load(asked.config), token_from(asked.token, sys.stdin)
    except Malformed as error:
        return _failed(error, 2)
    asking = enrol(asked.url, token, config.device_id, config.state_dir, ca=asked.ca)
    try:
        enrolment = asyncio.run(asking)
    except HybridgeError as error:
        return _failed(error, 1)
    print(words(enrolment))  # noqa: T201
    return 0


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
    status = commands.add_parser(
        "status", help="what the running agent does, and how novel inputs are"
    )
    status.add_argument("--config", type=Path, required=True, help="the agent's TOML file")
    status.add_argument("--json", action="store_true", help="for programs")
    updates = commands.add_parser(
        "updates", help="where updates of the running agent stand; look, go back, go on"
    ).add_subparsers(dest="action", required=True)
    for name, words in ACTIONS.items():
        action = updates.add_parser(name, help=words)
        action.add_argument("--config", type=Path, required=True, help="the agent's TOML file")
        action.add_argument("--json", action="store_true", help="for programs")
        if name == "check":
            action.add_argument(
                "--retry", action="store_true", help="give what was refused another try"
            )
        if name == "rollback":
            action.add_argument("--to", metavar="VERSION", help="default: the newest that is kept")
    enrol = commands.add_parser("enrol", help="get this device's certificate from its region")
    enrol.add_argument("--config", type=Path, required=True, help="the agent's TOML file")
    enrol.add_argument("--url", required=True, help="https:// address of the region's fleet")
    enrol.add_argument("--token", required=True, help="as the operator gave it; - reads stdin")
    enrol.add_argument(
        "--ca", type=Path, help="PEM file of who vouches for that address; default: the system's"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
