"""One broker process: store, gate, listeners and operations, from its start to its drain."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import ssl
import sys
import time
from pathlib import Path
from typing import Final

from cloud.broker.access.files import read_acl, read_passwords, read_revocations
from cloud.broker.access.gate import Gate
from cloud.broker.access.revocations import Revocations
from cloud.broker.launch import OWNER_NAME, OWNER_SECRET
from cloud.broker.operations.overview import Overview
from cloud.broker.options import Options
from cloud.broker.session.records import Snapshot
from cloud.broker.shell import process
from cloud.broker.shell.server import Server, new_client_id
from cloud.broker.shell.system_topics import SystemTopics
from cloud.broker.shell.tls import tls_context
from cloud.broker.store.committer import Committer
from cloud.broker.store.database import Database
from shared.errors import HybridgeError, InUse, Malformed

log = logging.getLogger("cloud.broker")

STORE_NAME: Final = "broker.db"


class _Pipe(asyncio.Protocol):
    """Sets an event when the other end of a pipe is gone."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._ended.set()


async def serve(options: Options) -> None:
    """Serve until told to stop.

    Raises `Malformed`, `InUse`, `Unknown` or `Unavailable` when it cannot start.
    """
    process.keep_freed_memory()
    process.allow_open_files(options.limits.connections_max)
    owner_secret = os.environ.pop(OWNER_SECRET, "")
    gate = _gate(options, owner_secret)
    tls = tls_context(options.tls_cert, options.tls_key, options.tls_ca)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        database, snapshot = None, None
        if options.state_dir is not None:
            database, snapshot = _load(options.state_dir, options)
            stack.callback(database.close)
        server = Server(options.limits, gate, snapshot, wall_now=time.time())
        del snapshot  # all of it is the router's now
        committer = None
        if database is not None and server.changes is not None:
            committer = Committer(database, server.changes)
            server.on_pending = committer.wake
            committer.wake()  # what loading the store changed
        overview = server.overview(committer)
        if options.pid_file is not None:
            stack.enter_context(process.pid_written(options.pid_file))
        ready = await _listen(server, overview, options, tls, stack)
        if owner_secret and tls is not None:  # its owner needs no certificate to reach it
            _, ready["owner_port"] = await server.listen("127.0.0.1", 0, owner_only=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if options.exits_with_stdin:
            await loop.connect_read_pipe(lambda: _Pipe(stop), sys.stdin)
        async with asyncio.TaskGroup() as parts:
            loop.add_signal_handler(
                signal.SIGHUP,
                lambda: parts.create_task(_reload(server, options, owner_secret)),
            )
            writing = parts.create_task(committer.run()) if committer is not None else None
            system = SystemTopics(server, overview, options.sys_interval_s)
            reporting = parts.create_task(system.run())
            stopping = parts.create_task(stop.wait())
            process.collect_rarely()
            print(json.dumps(ready), flush=True)  # noqa: T201
            await stopping
            reporting.cancel()
            loop.remove_signal_handler(signal.SIGHUP)
            await server.drain()
            if committer is not None and writing is not None:
                await committer.drain()
                await writing
    log.info("broker_stopped", extra={"dropped": dict(server.router.dropped())})


def _load(state_dir: Path, options: Options) -> tuple[Database, Snapshot]:
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Malformed(f"--state-dir {state_dir}: {error.strerror}") from error
    process.collect_no_garbage()
    began = time.monotonic()
    database = Database(state_dir / STORE_NAME, options.synchronous)
    snapshot = database.load()
    counts = {"messages": len(snapshot.messages), "sessions": len(snapshot.sessions)}
    took_s = round(time.monotonic() - began, 3)
    log.info("store_loaded", extra={**counts, "retained": len(snapshot.retained), "took_s": took_s})
    return database, snapshot


def _gate(options: Options, owner_secret: str) -> Gate:
    passwords = read_passwords(options.password_file) if options.password_file else None
    acl = read_acl(options.acl_file) if options.acl_file else None
    owner = (OWNER_NAME, owner_secret.encode()) if owner_secret else None
    revocations = _revocations(options)
    return Gate(
        passwords, acl, allow_anonymous=options.allows_anonymous, owner=owner,
        new_client_id=new_client_id, binds_client_ids=options.binds_client_ids,
        trusts_certificates=options.tls_ca is not None, revocations=revocations,
    )  # fmt: skip


def _revocations(options: Options) -> Revocations | None:
    if options.tls_crl is None:
        return None
    if options.tls_ca is None:
        raise Malformed("--tls-crl needs --tls-ca, who signed it")
    found = read_revocations(options.tls_crl, options.tls_ca)
    if found.next_update is not None and found.next_update.timestamp() < time.time():
        more = {"path": str(options.tls_crl), "next_update": found.next_update.isoformat()}
        log.warning("revocation_list_is_old", extra=more)
    return found


async def _reload(server: Server, options: Options, owner_secret: str) -> None:
    try:
        gate = await asyncio.to_thread(_gate, options, owner_secret)
    except HybridgeError as error:
        log.error("access_files_refused", extra={"why": str(error)})  # noqa: TRY400  it is in `why`
        return
    server.admit_by(gate)
    log.info("access_files_read")


async def _listen(
    server: Server,
    overview: Overview,
    options: Options,
    tls: ssl.SSLContext | None,
    stack: contextlib.AsyncExitStack,
) -> dict[str, object]:
    """Open every listener that was asked for; gives the line that says so."""
    websocket_port = metrics_port = None
    if options.state_dir is not None:
        from cloud.broker.operations.listeners import admin_listening  # noqa: PLC0415  aiohttp

        try:
            await stack.enter_async_context(admin_listening(overview, options.state_dir))
        except Malformed as error:  # the path is too long: no reason not to serve
            log.warning("no_admin_socket", extra={"why": str(error)})
    if options.metrics_port is not None:
        from cloud.broker.operations.listeners import metrics_listening  # noqa: PLC0415  aiohttp

        metrics_port = await stack.enter_async_context(
            metrics_listening(overview, "127.0.0.1", options.metrics_port)
        )
    if options.websocket_port is not None:
        from cloud.broker.shell.websocket_listener import websockets_listening  # noqa: PLC0415

        _, websocket_port = await stack.enter_async_context(
            websockets_listening(
                server, options.host, options.websocket_port, tls, options.websocket_origins
            )
        )
    try:
        host, port = await server.listen(options.host, options.port, tls)
    except OSError as error:
        raise InUse(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}; "
            "stop what uses it, or set the port to 0 (broker.port, --port) for a free one"
        ) from error
    return {
        "event": "broker_ready", "host": host, "port": port,
        "websocket_port": websocket_port, "metrics_port": metrics_port, "owner_port": None,
    }  # fmt: skip
