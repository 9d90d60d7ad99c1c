"""`hybridge-cloud serve|registry|fleet|learning|train-worker`: run one of a region's processes."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from cloud.config import Config, load, parse
from cloud.fleet import command as fleet_command
from cloud.learning import command as learning_command
from cloud.registry import command as registry_command
from cloud.running import EXIT_FORCED, on_signals, run
from cloud.training.worker import command as worker_command
from shared.errors import Malformed
from shared.logs import set_up

_OTHERS = {
    registry_command.NAME: (registry_command.add_to, registry_command.main),
    fleet_command.NAME: (fleet_command.add_to, fleet_command.main),
    learning_command.NAME: (learning_command.add_to, learning_command.main),
    worker_command.NAME: (worker_command.add_to, worker_command.main),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 after a clean drain, 1 when cut or a part died, 2 for wrong settings or usage."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = _parser().parse_args(argv)
    if arguments.command in _OTHERS:
        _, other = _OTHERS[arguments.command]
        return other(arguments)
    try:
        config = _config(arguments)
    except Malformed as error:
        print(f"hybridge-cloud: {error}", file=sys.stderr)  # noqa: T201  before there is a log
        return 2
    set_up(config.log_level)
    return run(lambda: _serve(config, argv, is_child=arguments.child), "cloud_not_started")


async def _serve(config: Config, argv: Sequence[str], *, is_child: bool) -> bool:
    # heavy imports; --help stays quick
    from cloud.processes.child import run_child  # noqa: PLC0415
    from cloud.processes.parent import Parent  # noqa: PLC0415
    from cloud.service import Service  # noqa: PLC0415

    if is_child:
        return await run_child(config, _say_ready, on_signals)
    several = config.processes > 1
    service = Parent(config, argv, _say_ready) if several else Service(config, _say_ready)
    on_signals(service)
    return await service.run()


def _say_ready(api: str, broker: str) -> None:
    """One line on stdout, for whoever started this."""
    print(json.dumps({"event": "cloud_ready", "api": api, "broker": broker}), flush=True)  # noqa: T201


def _config(arguments: argparse.Namespace) -> Config:
    """The file's settings, with what the command line says on top."""
    over: dict[str, object] = {}
    if arguments.name:
        over["name"] = arguments.name
    if arguments.state_dir:
        over["state_dir"] = arguments.state_dir
    if arguments.bundle:
        over["models"] = [{"bundle": path, **_engine(arguments)} for path in arguments.bundle]
    elif arguments.engine or arguments.url:
        raise Malformed(
            "--engine and --url go with --bundle; in a file set models.engine, models.triton.url"
        )
    if arguments.broker:
        url = "://" in arguments.broker
        broker = {"kind": "url", "url": arguments.broker} if url else {"kind": arguments.broker}
        port = {} if arguments.broker_port is None else {"port": arguments.broker_port}
        over["broker"] = {**broker, **port}
    elif arguments.broker_port is not None:
        over["broker"] = {"port": arguments.broker_port}
    if arguments.api_port is not None:
        over["api"] = {"port": arguments.api_port}
    if arguments.processes is not None:
        over["processes"] = arguments.processes
    if arguments.config is not None:
        return load(arguments.config, over)
    return parse(over, "command line")


def _engine(arguments: argparse.Namespace) -> dict[str, object]:
    found: dict[str, object] = {"engine": arguments.engine} if arguments.engine else {}
    if arguments.url:
        found["triton"] = {"url": arguments.url}
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hybridge-cloud", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for add_to, _ in _OTHERS.values():
        add_to(commands)
    serve = commands.add_parser(
        "serve", help="answer escalations and HTTP calls until SIGTERM",
        epilog="Exit codes: 0 drained, 1 cut short or not started, 2 wrong settings, "
        f"{EXIT_FORCED} told twice to end",
    )  # fmt: skip
    serve.add_argument("--config", type=Path, metavar="FILE", help="TOML; see README")
    serve.add_argument("--name", help="this worker's, its own among a broker's workers")
    serve.add_argument("--state-dir", type=Path, metavar="DIR")
    serve.add_argument(
        "--bundle", type=Path, action="append", metavar="PATH", help="a cloud model; may repeat"
    )
    serve.add_argument(
        "--engine", choices=("auto", "onnxruntime", "openvino", "tensorrt", "triton"),
        help="what runs the models of --bundle",
    )  # fmt: skip
    serve.add_argument(
        "--url", metavar="http://HOST:PORT", help="of the Triton server, with --engine triton"
    )
    serve.add_argument("--broker", metavar="embedded|mosquitto|mqtt://HOST:PORT")
    serve.add_argument("--broker-port", type=int, metavar="N", help="0 picks a free one")
    serve.add_argument("--api-port", type=int, metavar="N", help="0 picks a free one")
    serve.add_argument("--processes", type=int, metavar="N", help="serving processes on one port")
    serve.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
