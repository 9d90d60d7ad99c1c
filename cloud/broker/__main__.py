"""Run the embedded broker: `python -m cloud.broker --port 0`.

Prints one JSON line on stdout when it takes connections. Exit codes: 0 after SIGTERM, SIGINT or
the end of stdin (with `--exit-with-stdin`), 2 when it cannot start.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import logging
import signal
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from cloud.broker.limits import Limits
from cloud.broker.shell.server import Server
from shared.errors import InUse, Malformed
from shared.logs import set_up

log = logging.getLogger("cloud.broker")


class _Pipe(asyncio.Protocol):
    """Sets an event when the other end of a pipe is gone."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._ended.set()


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cloud.broker", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=1883, help="0 picks a free one")
    parser.add_argument("--tls-cert", type=Path, help="certificate chain, PEM")
    parser.add_argument("--tls-key", type=Path, help="its private key, PEM")
    parser.add_argument("--tls-ca", type=Path, help="only clients with a certificate from here")
    parser.add_argument(
        "--exit-with-stdin", action="store_true", help="stop when stdin ends: with the parent"
    )
    for field in dataclasses.fields(Limits):
        option = "--" + field.name.replace("_", "-")
        kind = float if isinstance(field.default, float) else int
        parser.add_argument(option, type=kind, default=field.default)
    return parser


def tls_context(cert: Path | None, key: Path | None, ca: Path | None) -> ssl.SSLContext | None:
    """Make a server context, with client certificates required if `ca` is given.

    Raises:
        Malformed: a file is missing, does not parse, or only some of them are named.

    """
    if cert is None:
        if key is not None or ca is not None:
            raise Malformed("--tls-key and --tls-ca need --tls-cert")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
        if ca is not None:
            context.load_verify_locations(ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # ssl.SSLError is one
        raise Malformed(f"--tls-cert {cert}, --tls-key {key}, --tls-ca {ca}: {error}") from error
    return context


async def serve(options: argparse.Namespace) -> None:
    """Serve until told to stop. Raises `Malformed` or `InUse` when it cannot start."""
    values = vars(options)
    try:
        limits = Limits(**{field.name: values[field.name] for field in dataclasses.fields(Limits)})
    except ValueError as error:
        raise Malformed(str(error)) from error
    tls = tls_context(options.tls_cert, options.tls_key, options.tls_ca)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    server = Server(limits)
    try:
        host, port = await server.listen(options.host, options.port, tls)
    except OSError as error:
        raise InUse(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}; "
            "stop what uses it, or set the port to 0 (broker.port, --port) for a free one"
        ) from error
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.exit_with_stdin:
        await loop.connect_read_pipe(lambda: _Pipe(stop), sys.stdin)
    print(json.dumps({"event": "broker_ready", "host": host, "port": port}), flush=True)  # noqa: T201
    await stop.wait()
    await server.drain()
    log.info("broker_stopped", extra={"dropped": dict(server.router.dropped())})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run on uvloop where it is installed."""
    options = _arguments().parse_args(arguments)
    set_up("info")
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415  optional: Windows has none

        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve(options))
    except (Malformed, InUse) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
