"""What the cloud process calls: starting a broker of each kind, and hearing of its death."""

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from cloud.broker.codec.packets import Connect
from cloud.broker.launch import broker_running
from cloud.broker.limits import Limits
from cloud.broker.mosquitto import Tls, config_text
from cloud.broker.settings import BrokerSettings
from shared.broker_url import parse_url
from shared.errors import Disconnected, InUse, Malformed, Unavailable, Unknown
from tests.brokers import BROKER_KINDS, BrokerKind, running_broker
from tests.contracts.certificates import make_certificates
from tests.raw_client import RawClient

TIMEOUT_S = 10.0
kinds = pytest.mark.parametrize("kind", BROKER_KINDS)


def wait_until_gone(pid: int) -> None:
    """Wait for a process that need not be our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], TIMEOUT_S)
        assert ready, f"process {pid} still runs"
    finally:
        os.close(descriptor)


@kinds
def test_a_started_broker_takes_connections_and_is_gone_afterwards(
    kind: BrokerKind, tmp_path: Path
) -> None:
    async def check() -> int:
        async with broker_running(BrokerSettings(kind=kind, state_dir=tmp_path)) as address:
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.close()
            await writer.wait_closed()
            assert not address.died.done()
            assert address.pid is not None
            return address.pid

    wait_until_gone(asyncio.run(check()))


@kinds
def test_the_owner_hears_of_its_brokers_death(kind: BrokerKind, tmp_path: Path) -> None:
    async def check() -> None:
        async with broker_running(BrokerSettings(kind=kind, state_dir=tmp_path)) as address:
            assert address.pid is not None
            async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as parts:
                parts.create_task(address.watch())
                parts.create_task(asyncio.Event().wait())
                os.kill(address.pid, signal.SIGKILL)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(check())
    assert caught.group_contains(Disconnected, match="ended with code -9")


OWNER = """
import asyncio, pathlib, sys
from cloud.broker.codec.packets import Connect
from cloud.broker.launch import broker_running
from cloud.broker.settings import BrokerSettings

async def main():
    settings = BrokerSettings(kind=sys.argv[1], state_dir=pathlib.Path(sys.argv[2]))
    async with broker_running(settings) as address:
        print(address.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@kinds
def test_a_broker_does_not_outlive_a_killed_owner(kind: BrokerKind, tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, kind, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()
    wait_until_gone(pid)


@kinds
def test_a_taken_port_is_said(kind: BrokerKind, tmp_path: Path) -> None:
    async def start(port: int) -> None:
        settings = BrokerSettings(kind=kind, state_dir=tmp_path, port=port)
        async with broker_running(settings):
            raise AssertionError("must not start")

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InUse):
        asyncio.run(start(taken.getsockname()[1]))


def test_mosquitto_that_is_missing_or_never_ready_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> None:
        settings = BrokerSettings(kind="mosquitto", state_dir=tmp_path, start_timeout_s=0.3)
        async with broker_running(settings):
            raise AssertionError("must not start")

    fake = tmp_path / "mosquitto"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(Unavailable, match=r"within 0\.3 s"):
            asyncio.run(start())
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(Unknown, match="apt-get install mosquitto"):
        asyncio.run(start())


def test_a_broker_that_runs_elsewhere_is_only_an_address() -> None:
    async def check() -> None:
        settings = BrokerSettings(kind="url", url=SecretStr("mqtts://me:se%63ret@there"))
        assert "se%63ret" not in repr(settings)
        async with broker_running(settings) as address:
            assert (address.host, address.port, address.tls) == ("there", 8883, True)
            assert (address.username, address.password) == ("me", "secret")
            assert "secret" not in repr(address)
            assert not address.died.done()

    asyncio.run(check())


@pytest.mark.parametrize(
    "url",
    ["http://h", "mqtt://", "mqtt://h:x", "mqtt://h:99999", "mqtt://h/p", "h:1883", "mqtt://h?a"],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(Malformed):
        parse_url(url)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "url"},
        {"kind": "embedded", "url": "mqtt://h"},
        {"kind": "mosquitto"},
        {"tls_cert": "c"},
        {"tls_ca": "c"},
        {"limits": {"unknown": 1}},
        {"limits": {"sessions_max": 0}},
        {"unknown": 1},
    ],
)
def test_settings_that_do_not_fit_together(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BrokerSettings.model_validate(settings)


def config(**more: object) -> str:
    values: dict[str, object] = {
        "host": "127.0.0.1", "port": 1883, "state_dir": Path("/var/lib/x"), "limits": Limits(),
        "allow_anonymous": True, **more,
    }  # fmt: skip
    return config_text(**values)  # type: ignore[arg-type]  # keywords of config_text


def test_mosquitto_never_drops_while_the_publisher_hears_success() -> None:
    lines = config(limits=Limits(queued_bytes_max=2_000_000), run_as="hy").splitlines()
    for line in (
        "listener 1883 127.0.0.1", "max_queued_messages 1000", "max_queued_bytes 0",
        "set_tcp_nodelay true", "persistence true", "persistence_location /var/lib/x/",
        "allow_anonymous true", "user hy",
    ):  # fmt: skip
        assert line in lines
    assert "require_certificate true" not in lines


def test_with_certificates_a_client_is_who_its_certificate_says() -> None:
    lines = config(tls=Tls(Path("c"), Path("k"), Path("a")), allow_anonymous=False).splitlines()
    for line in (
        "certfile c", "keyfile k", "cafile a", "require_certificate true",
        "use_identity_as_username true", "use_username_as_clientid true", "allow_anonymous false",
    ):  # fmt: skip
        assert line in lines


def test_a_line_break_cannot_add_a_directive() -> None:
    with pytest.raises(Malformed):
        config(host="127.0.0.1\nallow_anonymous true")


def test_the_owners_way_past_tls_is_for_the_owner_only(tmp_path: Path) -> None:
    make_certificates(tmp_path, "server")
    files = {"tls_cert": "server.pem", "tls_key": "server.key", "tls_ca": "ca.pem"}
    settings = {name: tmp_path / file for name, file in files.items()}
    with running_broker("embedded", tmp_path / "state", **settings) as address:
        host, port, tls = address.for_owner
        assert (host, tls) == ("127.0.0.1", False)
        assert port != address.port
        way_in = replace(address, host=host, port=port)
        assert address.username is not None
        assert address.password is not None
        for username, password, reason in (
            (address.username, address.password, 0),
            (address.username, "guessed", 0x86),
            (None, None, 0x87),
            ("server", "x", 0x87),
        ):
            secret = password.encode() if password is not None else None
            with RawClient(way_in, Connect("c", username=username, password=secret)) as client:
                assert client.connack is not None
                assert client.connack.reason == reason
