"""Start the broker that the settings ask for, and stop it: what the cloud process calls.

    async with broker_running(settings) as address, asyncio.TaskGroup() as parts:
        parts.create_task(address.watch())  # raises when the broker dies, which ends the process
        ...

The broker is a process of its own, so it answers while this one is busy. It ends with this one:
the embedded broker watches its stdin, Mosquitto gets SIGTERM from the kernel (Linux only).
"""

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import pwd
import secrets
import shutil
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Connect, Disconnect, Version
from cloud.broker.limits import Limits
from cloud.broker.mosquitto import RUNNING, Tls, config_text
from cloud.broker.settings import BrokerSettings
from shared.broker_url import parse_url
from shared.errors import Disconnected, InUse, Unavailable, Unknown

log = logging.getLogger(__name__)

T = TypeVar("T")

OWNER_NAME = "hybridge-owner"
"""User name of the process that started the broker, with a secret made for this run."""
OWNER_SECRET = "HYBRIDGE_BROKER_OWNER_SECRET"  # noqa: S105  the variable's name, not the secret
PASSED_ON = (
    "tls_cert", "tls_key", "tls_ca", "tls_crl", "state_dir", "synchronous", "password_file",
    "acl_file", "pid_file", "websocket_port", "metrics_port", "sys_interval_s",
)  # fmt: skip
"""Settings that are options of `python -m cloud.broker` under the same name."""
PORT_TAKEN = 2
"""Exit code of `python -m cloud.broker` when it cannot listen."""
FREE_PORT_TRIES = 3
"""Mosquitto cannot pick a port itself; another process may take the one picked for it."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where the broker is. `died` gives its exit code, never set for one we did not start.

    The user name and password of one that we started are those of its owner, who may do all.
    """

    host: str
    port: int
    died: asyncio.Future[int]
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    pid: int | None = None
    websocket_port: int | None = None
    metrics_port: int | None = None
    owner_port: int | None = None
    """On this machine, without TLS, for its owner only; where the broker has TLS."""

    @property
    def for_owner(self) -> tuple[str, int, bool]:
        """Host, port and whether to use TLS, for the process that started it."""
        if self.owner_port is not None:
            return "127.0.0.1", self.owner_port, False
        return self.host, self.port, self.tls

    def read_access_again(self) -> None:
        """Have a broker that we started read its password, ACL and revocation files again."""
        if self.pid is not None and not self.died.done():
            os.kill(self.pid, signal.SIGHUP)

    async def watch(self) -> None:
        """Wait for the broker to die, and raise `Disconnected` then."""
        code = await asyncio.shield(self.died)
        raise Disconnected(f"the broker (process {self.pid}) ended with code {code}; see its log")


@dataclass(frozen=True, slots=True)
class Started:
    """A broker process that takes connections."""

    process: Process
    port: int
    owner: str | None = None
    secret: str | None = field(default=None, repr=False)
    websocket_port: int | None = None
    metrics_port: int | None = None
    owner_port: int | None = None


@contextlib.asynccontextmanager
async def broker_running(settings: BrokerSettings) -> AsyncIterator[BrokerAddress]:
    """Give the address of a broker that takes connections, and stop it at the end.

    Raises:
        Unknown: Mosquitto is wanted and not installed.
        InUse: the port is taken.
        Unavailable: it did not start in `start_timeout_s`.

    """
    if settings.url is not None:
        url = parse_url(settings.url.get_secret_value())
        died: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        password = url.password.get_secret_value() if url.password else None
        yield BrokerAddress(url.host, url.port, died, url.tls, url.username, password)
        return
    async with contextlib.AsyncExitStack() as stack:
        start = _start_embedded if settings.kind == "embedded" else _start_mosquitto
        started = await start(settings, stack)
        pid = started.process.pid
        watcher = asyncio.create_task(started.process.wait())
        stack.push_async_callback(_cancel, watcher)
        log.info("broker_started", extra={"kind": settings.kind, "port": started.port, "pid": pid})
        yield BrokerAddress(
            settings.host, started.port, watcher, settings.tls_cert is not None,
            started.owner, started.secret, pid, started.websocket_port, started.metrics_port,
            started.owner_port,
        )  # fmt: skip


async def _cancel(task: "asyncio.Task[int]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _stop(process: Process, timeout_s: float) -> None:
    """SIGTERM, then SIGKILL; by process id."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        log.warning("broker_killed", extra={"pid": process.pid})
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _start_embedded(settings: BrokerSettings, stack: contextlib.AsyncExitStack) -> Started:
    arguments = ["--host", settings.host, "--port", str(settings.port), "--exit-with-stdin"]
    arguments += ["--allow-anonymous", "yes" if settings.lets_anonymous_in else "no"]
    for name in PASSED_ON:
        if (value := getattr(settings, name)) is not None:
            arguments += ["--" + name.replace("_", "-"), str(value)]
    if settings.bind_client_ids:
        arguments.append("--bind-client-ids")
    for origin in settings.websocket_origins:
        arguments += ["--websocket-origin", origin]
    for one in dataclasses.fields(Limits):
        arguments += ["--" + one.name.replace("_", "-"), str(getattr(settings.limits, one.name))]
    secret = secrets.token_hex(32)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cloud.broker", *arguments,
        stdin=PIPE, stdout=PIPE, start_new_session=True, env={**os.environ, OWNER_SECRET: secret},
    )  # fmt: skip
    stack.push_async_callback(_stop, process, settings.stop_timeout_s)
    assert process.stdout is not None
    line = await _before_deadline(process.stdout.readline(), settings, "broker_ready")
    if not line:
        code = await process.wait()
        problem = f"the embedded broker ended with code {code}; its message is on stderr"
        raise InUse(problem) if code == PORT_TAKEN else Unavailable(problem)
    ready = json.loads(line)
    return Started(
        process, int(ready["port"]), OWNER_NAME, secret, ready["websocket_port"],
        ready["metrics_port"], ready["owner_port"],
    )  # fmt: skip


async def _start_mosquitto(settings: BrokerSettings, stack: contextlib.AsyncExitStack) -> Started:
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if program is None:
        raise Unknown("mosquitto is not installed: apt-get install mosquitto, or kind 'embedded'")
    for last in (False,) * (FREE_PORT_TRIES - 1) + (True,):
        port = settings.port or _free_port(settings.host)
        process = await _spawn_mosquitto(program, settings, port)
        stack.push_async_callback(_stop, process, settings.stop_timeout_s)
        assert process.stderr is not None
        said = await _before_deadline(_until_running(process.stderr), settings, "'running'")
        if said is None:
            drain = asyncio.create_task(_log_lines(process.stderr))
            stack.callback(drain.cancel)
            await _before_deadline(_first_answer(settings.host, port), settings, "answer")
            return Started(process, port)
        if settings.port or last:
            raise (InUse if "in use" in said else Unavailable)(f"mosquitto did not start: {said}")
    raise AssertionError("unreachable: the last try returns or raises")


async def _spawn_mosquitto(program: str, settings: BrokerSettings, port: int) -> Process:
    state_dir = settings.state_dir
    assert state_dir is not None
    state_dir.mkdir(parents=True, exist_ok=True)
    tls = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        tls = Tls(settings.tls_cert, settings.tls_key, settings.tls_ca, settings.tls_crl)
    config = state_dir / "mosquitto.conf"
    text = config_text(
        host=settings.host, port=port, state_dir=state_dir.resolve(), limits=settings.limits,
        allow_anonymous=settings.lets_anonymous_in, run_as=pwd.getpwuid(os.getuid()).pw_name,
        tls=tls, password_file=_absolute(settings.password_file),
        acl_file=_absolute(settings.acl_file), pid_file=_absolute(settings.pid_file),
    )  # fmt: skip
    config.write_text(text, encoding="utf-8")
    setpriv = shutil.which("setpriv")
    wrapper = [setpriv, "--pdeathsig", "TERM"] if setpriv and sys.platform == "linux" else []
    return await asyncio.create_subprocess_exec(
        *wrapper, program, "-c", str(config),
        stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True,
    )  # fmt: skip


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


async def _until_running(stderr: asyncio.StreamReader) -> str | None:
    """None once it runs; what it said if it ended instead."""
    said: list[str] = []
    while line := (await stderr.readline()).decode(errors="replace").rstrip():
        if line.endswith(RUNNING):
            return None
        said.append(line)
    return " | ".join(said)


async def _first_answer(host: str, port: int) -> None:
    """Wait until Mosquitto's main loop turns: a SIGTERM before that would be lost.

    Any byte or the end of the connection will do, which is what a TLS listener answers with.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(encode(Connect("", Version.V311)) + encode(Disconnect(), Version.V311))
        with contextlib.suppress(ConnectionError):
            await reader.read(1)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def _absolute(path: Path | None) -> Path | None:
    return path.resolve() if path is not None else None


async def _log_lines(stderr: asyncio.StreamReader) -> None:
    while line := await stderr.readline():
        log.info("mosquitto", extra={"line": line.decode(errors="replace").rstrip()})


async def _before_deadline(waiting: Awaitable[T], settings: BrokerSettings, what: str) -> T:
    try:
        async with asyncio.timeout(settings.start_timeout_s):
            return await waiting
    except TimeoutError as error:
        waited = f"{settings.kind} broker: no {what} within {settings.start_timeout_s} s"
        raise Unavailable(waited) from error
