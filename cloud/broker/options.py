"""The command line of `python -m cloud.broker`, as one frozen value."""

import argparse
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from cloud.broker.exposure import check_exposed
from cloud.broker.limits import Limits
from shared.errors import Malformed


@dataclass(frozen=True, slots=True)
class Options:
    """What `settings.BrokerSettings` says for people, for one process."""

    host: str
    port: int
    tls_cert: Path | None
    tls_key: Path | None
    tls_ca: Path | None
    tls_crl: Path | None
    state_dir: Path | None
    synchronous: Literal["full", "normal", "off"]
    password_file: Path | None
    acl_file: Path | None
    allows_anonymous: bool
    binds_client_ids: bool
    websocket_port: int | None
    websocket_origins: frozenset[str]
    metrics_port: int | None
    sys_interval_s: float
    pid_file: Path | None
    exits_with_stdin: bool
    limits: Limits


def parse(arguments: Sequence[str] | None) -> Options:
    """Read the command line.

    Raises `Malformed` for bounds that contradict each other, and for a host that other machines
    reach while nothing asks who they are.
    """
    found = _parser().parse_args(arguments)
    values = vars(found)
    try:
        limits = Limits(**{one.name: values[one.name] for one in dataclasses.fields(Limits)})
    except ValueError as error:
        raise Malformed(str(error)) from error
    anonymous = found.allow_anonymous
    guarded = bool(found.password_file or found.tls_ca or anonymous == "yes")
    try:
        check_exposed(found.host, is_guarded=guarded)
    except Malformed as error:
        raise Malformed(f"{error} (--password-file, --tls-ca, --allow-anonymous yes)") from error
    return Options(
        found.host, found.port, found.tls_cert, found.tls_key, found.tls_ca, found.tls_crl,
        found.state_dir, cast("Literal['full', 'normal', 'off']", found.synchronous),
        found.password_file, found.acl_file,
        found.password_file is None if anonymous is None else anonymous == "yes",
        found.bind_client_ids, found.websocket_port, frozenset(found.websocket_origin), found.metrics_port,
        found.sys_interval_s, found.pid_file, found.exit_with_stdin, limits,
    )  # fmt: skip


_DESCRIPTION: Final = (
    "Run the embedded MQTT broker. Prints one JSON line on stdout when it takes connections. SIGHUP "
    "reads the password, ACL and revocation files again. Exit codes: 0 after SIGTERM, SIGINT or the end of "
    "stdin (with --exit-with-stdin), 2 when it cannot start."
)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{port} is no port: 0 to 65535")
    return port


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise argparse.ArgumentTypeError(f"{text} is no time: 0 or more seconds")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cloud.broker", description=_DESCRIPTION)
    add = parser.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=_port, default=1883, help="0 picks a free one")
    add("--tls-cert", type=Path, help="certificate chain, PEM")
    add("--tls-key", type=Path, help="its private key, PEM")
    add("--tls-ca", type=Path, help="only clients with a certificate from here")
    add("--tls-crl", type=Path, help="but not with one on this list, signed by that CA, PEM")
    add("--state-dir", type=Path, help="the store and the admin socket; without it, in memory")
    add("--synchronous", choices=("full", "normal", "off"), default="full")
    add("--password-file", type=Path, help="users: see hybridge broker passwd")
    add("--acl-file", type=Path, help="who may publish and read what, in Mosquitto's syntax")
    add("--allow-anonymous", choices=("yes", "no"), help="default: no with a password file")
    add("--bind-client-ids", action="store_true", help="a user's client ids: its name, name/...")
    add("--websocket-port", type=_port, help="MQTT over WebSockets; 0 picks a free port")
    add("--websocket-origin", action="append", default=[], help="a web page that may connect")
    add("--metrics-port", type=_port, help="Prometheus metrics on this machine; 0: a free port")
    add("--sys-interval-s", type=_seconds, default=10.0, help="of $SYS topics; 0: none")
    add("--pid-file", type=Path, help="where its process id stands while it runs")
    add("--exit-with-stdin", action="store_true", help="stop when stdin ends: with the parent")
    for field in dataclasses.fields(Limits):
        option = "--" + field.name.replace("_", "-")
        kind = float if isinstance(field.default, float) else int
        add(option, type=kind, default=field.default)
    return parser
