"""From `hybridge fleet init`'s files to a device that is shut out: real processes, both brokers."""

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cloud.broker.codec import packets as p
from cloud.fleet.identity.ca import CERTIFICATE
from cloud.fleet.setup.layout import DEVICES_PORT, SERVICES_PORT
from edge.config import load
from edge.identity.enrol import enrol, renew
from edge.identity.files import identity_files, present
from edge.identity.settings import Identity
from shared import topics
from shared.errors import Forbidden
from shared.ids import device_id
from shared.mqtt.link import Link
from tests.brokers import BROKER_KINDS, BrokerKind
from tests.cloud.fleet.identity.regions import HOST, Region, running_region
from tests.cloud.fleet.servers import FleetProcess
from tests.cloud.keyed_process import ROOT
from tests.raw_client import RawClient


@pytest.fixture(scope="module", params=BROKER_KINDS)
def kind(request: pytest.FixtureRequest) -> BrokerKind:
    found: BrokerKind = request.param
    return found


@pytest.fixture(scope="module")
def region(kind: BrokerKind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    with running_region(kind, tmp_path_factory.mktemp(kind) / "lyon") as it:
        yield it


@pytest.fixture(scope="module")
def fleet(region: Region) -> Iterator[FleetProcess]:
    """On the generated `fleet.toml` but for ports, addresses and keys."""
    process = FleetProcess(region.at.folder / "fleet", region.services)
    text = region.at.fleet_config.read_text()
    for stated, meant in (
        ('host = "0.0.0.0"', f'host = "{HOST}"'),
        (f":{SERVICES_PORT}", f":{region.services.port}"),
        (f'url = "mqtts://{HOST}:{DEVICES_PORT}', f'url = "mqtts://{HOST}:{region.services.port}'),
        ('"keys.jsonl"', json.dumps(str(process.folder / "api-keys"))),
    ):
        text = text.replace(stated, meant)
    process.config = region.at.fleet_config
    process.config.write_text(text)
    process.tls = ssl.create_default_context(cafile=region.at.services_ca / CERTIFICATE)
    with process:
        yield process


class Device:
    def __init__(self, name: str, folder: Path, region: Region, fleet: FleetProcess) -> None:
        self.name, self.folder, self.region, self.fleet = name, folder, region, fleet
        folder.mkdir()
        self.config = folder / "agent.toml"
        self.config.write_text(
            f'device_id = "{name}"\nstate_dir = "state"\nbundle = "bundle"\n'
            f'[uplink]\nurl = "mqtts://{HOST}:{region.devices.port}"\n'
            f'[identity]\nurl = "{fleet.url}"\n'
        )
        self.state_dir = folder / "state"

    def enrol(self, token: str) -> "subprocess.CompletedProcess[str]":
        arguments = ["--config", str(self.config), "--url", self.fleet.url, "--token", "-",
                     "--ca", str(self.region.at.services_ca / CERTIFICATE)]  # fmt: skip
        return subprocess.run(
            [sys.executable, "-m", "edge", "enrol", *arguments],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, input=f"{token}\n",
        )  # fmt: skip

    def enrol_here(self, token: str) -> None:
        ca = self.region.at.services_ca / CERTIFICATE
        asyncio.run(enrol(self.fleet.url, token, self.name, self.state_dir, ca=ca))

    def connect(self) -> RawClient:
        files = identity_files(self.state_dir)
        assert files is not None
        tls = ssl.create_default_context(cafile=files.ca)
        tls.load_cert_chain(files.certificate, files.key)
        return RawClient(self.region.devices, p.Connect(self.name), tls)

    def is_let_in(self) -> bool:
        try:
            with self.connect() as client:
                return client.connack is not None and client.connack.reason == 0
        except OSError:
            return False

    def renew(self) -> str:
        found = asyncio.run(renew(Identity(url=self.fleet.url), self.name, self.state_dir))
        return found.serial


@pytest.fixture
def device(tmp_path: Path, region: Region, fleet: FleetProcess) -> Device:
    return Device(f"cam-{time.monotonic_ns()}", tmp_path / "device", region, fleet)


def token(fleet: FleetProcess, **asked: object) -> str:
    reply = fleet.call("POST", "/v1/tokens", asked)
    assert reply.status == 201, reply.body
    return str(json.loads(reply.body)["token"])


def test_a_token_is_good_for_one_device_once(fleet: FleetProcess, device: Device) -> None:
    given = token(fleet, device=device.name, labels={"site": "lyon"})
    done = device.enrol(given)
    assert done.returncode == 0, done.stderr
    assert f"{device.name} is enrolled" in done.stdout
    known = json.loads(fleet.get(f"/v1/devices/{device.name}").body)
    own = present(device.state_dir)
    assert own is not None
    assert [one["serial"] for one in known["certificates"]] == [own.serial]
    assert known["labels"] == {"site": "lyon"}
    again = device.enrol(given)
    assert again.returncode == 1
    assert "was used" in again.stderr
    assert given.split("_")[2] not in again.stderr + done.stdout + fleet.log.read_text()
    kept = present(device.state_dir)
    assert kept is not None
    assert kept.serial == own.serial


def test_the_agents_own_link_uses_it_and_the_fleet_hears_it(
    fleet: FleetProcess, device: Device
) -> None:
    device.enrol_here(token(fleet))
    settings = load(device.config).link_settings()

    async def come_online() -> None:
        up = asyncio.Event()
        link = Link(
            settings, subscriptions=(f"hy/v1/{device.name}/down/#",), on_delivery=lambda _: None,
            on_up=lambda _: up.set(), on_down=lambda: None,
        )  # fmt: skip
        async with asyncio.timeout(20), asyncio.TaskGroup() as parts:
            parts.create_task(link.run())
            await up.wait()
            said = b'{"online": true, "model": "m", "model_version": "1"}'
            topic = topics.state(device_id(device.name))
            assert await link.publish(topic, said, retain=True) == 0  # somebody subscribes
            link.drain()

    asyncio.run(come_online())


def test_a_renewed_certificate_works_and_the_old_one_still_does(
    fleet: FleetProcess, device: Device
) -> None:
    device.enrol_here(token(fleet))
    with device.connect() as old:
        before = present(device.state_dir)
        assert before is not None
        assert device.renew() != before.serial
        assert device.is_let_in()
        known = json.loads(fleet.get(f"/v1/devices/{device.name}").body)
        assert len(known["certificates"]) == 2
        assert old.connack is not None


def test_a_revoked_device_is_shut_out_wherever_it_comes(
    fleet: FleetProcess, device: Device, kind: BrokerKind
) -> None:
    device.enrol_here(token(fleet))
    with ExitStack() as stack:
        client = stack.enter_context(device.connect())
        assert client.publish(topics.telemetry(device_id(device.name)), b"{}") in (0, 0x10)
        reply = fleet.call("POST", f"/v1/devices/{device.name}/revoke", {"comment": "stolen"})
        assert reply.status == 200, reply.body
        if kind == "embedded":
            assert client.end_reason() == 0x87
        else:  # Mosquitto leaves it open, and shuts it up
            deadline = time.monotonic() + 10
            while client.publish(topics.telemetry(device_id(device.name)), b"{}") != 0x87:
                assert time.monotonic() < deadline
        assert not device.is_let_in()
        with pytest.raises(Forbidden, match="revoked"):
            device.renew()
    with pytest.raises(Forbidden, match="enrolled already"):
        device.enrol_here(token(fleet))  # whoever has a token may not be any device that there is
    device.enrol_here(token(fleet, device=device.name))  # an operator takes it back
    deadline = time.monotonic() + 10
    while not _may_speak(device):
        assert time.monotonic() < deadline


def _may_speak(device: Device) -> bool:
    with device.connect() as client:
        topic = topics.telemetry(device_id(device.name))
        return client.connack is not None and client.publish(topic, b"{}") != 0x87
