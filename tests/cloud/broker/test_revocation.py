"""The embedded broker as a process: a revocation list that is read again, good and bad."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from cloud.broker.access.files import read_revocations
from cloud.broker.access.gate import Gate
from cloud.broker.codec import packets as p
from cloud.broker.limits import Limits
from cloud.broker.shell.server import Server
from cloud.broker.shell.tls import tls_context
from cloud.broker.shell.websocket_listener import websockets_listening
from cloud.fleet.identity.ca import CERTIFICATE, CRL
from tests.cloud.broker.shell.websockets import Client
from tests.cloud.fleet.identity.regions import Region, running_region
from tests.raw_client import RawClient

TIMEOUT_S = 10.0


@pytest.fixture
def region(tmp_path: Path) -> Iterator[Region]:
    with running_region("embedded", tmp_path / "lyon") as it:
        yield it


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"no list"])
def test_a_list_that_cannot_be_read_leaves_everything_as_it_was(
    region: Region, content: bytes
) -> None:
    gone, kept, wrong = region.device("cam-1"), region.device("cam-2"), region.device("cam-3")
    with (
        RawClient(region.devices, p.Connect("cam-1"), region.context(gone)) as first,
        RawClient(region.devices, p.Connect("cam-2"), region.context(kept)) as second,
    ):
        region.revoke(gone)
        assert first.end_reason() == 0x87
        (region.ca.folder / CRL).write_bytes(content)
        os.kill(region.pid, signal.SIGHUP)
        second.so_far()  # it is still there
        with RawClient(region.devices, p.Connect("cam-1"), region.context(gone)) as again:
            assert again.connack is not None
            assert again.connack.reason == 0x87  # what was revoked still is
        (region.ca.folder / CRL).unlink()
        region.revoke(wrong)  # a good list counts again
        with RawClient(region.devices, p.Connect("cam-2"), region.context(kept)) as other:
            assert other.connack is not None
            assert other.connack.reason == 0


def test_over_websockets_too(region: Region) -> None:
    own = region.device("cam-1")
    at = region.at
    tls = tls_context(at.certificate("server"), at.key("server"), at.clients)

    def gate() -> Gate:
        listed = read_revocations(region.ca.folder / CRL, region.ca.folder / CERTIFICATE)
        return Gate(
            None, None, allow_anonymous=False, owner=None, new_client_id=str, revocations=listed
        )

    async def run() -> None:
        server = Server(Limits(), gate())
        async with (
            asyncio.timeout(TIMEOUT_S),
            websockets_listening(server, "127.0.0.1", 0, tls) as (_, port),
            aiohttp.ClientSession(f"https://127.0.0.1:{port}") as http,
            http.ws_connect("/mqtt", protocols=["mqtt"], ssl=region.context(own)) as frames,
        ):
            client = Client(frames)
            await client.send(p.Connect("cam-1"))
            assert isinstance(await client.read(), p.Connack)
            region.revoke(own)
            server.admit_by(gate())
            ended = await client.read()
            assert isinstance(ended, p.Disconnect)
            assert ended.reason == 0x87
            await server.drain()

    asyncio.run(run())


def started(*options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cloud.broker", "--port", "0", *map(str, options)],
        capture_output=True, text=True, timeout=30, check=False, input="",
    )  # fmt: skip


def test_a_broker_does_not_start_with_a_list_that_it_cannot_read(tmp_path: Path) -> None:
    done = started("--tls-crl", tmp_path / "crl.pem")
    assert done.returncode == 2
    assert "--tls-crl needs --tls-ca" in done.stderr
    with running_region("embedded", tmp_path / "lyon") as region:
        at = region.at
        files = ("--tls-cert", at.certificate("server"), "--tls-key", at.key("server"),
                 "--tls-ca", at.clients)  # fmt: skip
        done = started(*files, "--tls-crl", tmp_path / "none.pem")
        assert done.returncode == 2
        assert "none.pem" in done.stderr
        old = region.ca.crl({}, time.time() - 99 * 86_400, days=1)
        (tmp_path / "old.pem").write_text(old)
        done = started(*files, "--tls-crl", tmp_path / "old.pem", "--exit-with-stdin")
        assert done.returncode == 0  # it served until its stdin ended
        assert "revocation_list_is_old" in done.stderr
        assert '"broker_ready"' in done.stdout
