"""A region that asks everybody who they are: passwords or certificates, and the example ACL."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cloud.broker.access.passwords import with_user
from cloud.broker.codec import packets as p
from cloud.broker.launch import BrokerAddress
from tests.brokers import BROKER_KINDS, BrokerKind, running_broker
from tests.cloud.workers import worker
from tests.contracts.certificates import make_certificates
from tests.end_to_end.region import Region
from tests.end_to_end.site import Site
from tests.raw_client import RawClient

ACL = Path(__file__).parents[2] / "firmware_configs" / "broker" / "acl.conf"
AGENT = 'username = "cam-1"\npassword = "cam-1 secret"\n'


@dataclass
class Guarded(Region):
    """The cloud worker starts the broker itself, as `hybridge-cloud serve` does by default."""

    certificates: bool = False

    def prepare(self) -> None:
        super().prepare()
        self.write_passwords("cam-1", "cam-2")
        broker, agent = 'password_file = "passwords"\n', AGENT
        if self.certificates:
            make_certificates(self.folder, "server", "cam-1")
            broker = 'tls_cert = "server.pem"\ntls_key = "server.key"\ntls_ca = "ca.pem"\n'
            agent = 'ca = "ca.pem"\ncertificate = "cam-1.pem"\nkey = "cam-1.key"\n'
        (self.folder / "cloud.toml").write_text(
            '[[models]]\nbundle = "cloud-bundle"\n'
            f'[broker]\nport = {self.broker_port}\n{broker}acl_file = "{ACL}"\n[api]\nport = 0\n'
        )
        file = self.folder / "agent.toml"
        text = file.read_text().replace("[uplink]\n", f"[uplink]\n{agent}")
        file.write_text(text.replace("mqtt://", "mqtts://") if self.certificates else text)

    def write_passwords(self, *names: str) -> None:
        text = ""
        for name in names:
            text = with_user(text, name, f"{name} secret".encode(), name.encode() * 4, "passwords")
        (self.folder / "passwords").write_text(text)

    def arguments(self, name: str) -> tuple[str, ...]:
        if name == "cloud":
            return ("-m", "cloud", "serve", "--config", str(self.folder / "cloud.toml"))
        return super().arguments(name)


@contextmanager
def opened(region: Guarded) -> Iterator[Site]:
    with asyncio.Runner() as runner:
        site = Site(region, runner)
        try:
            site.configure("[routing]\naudit_share = 0.0\n")
            site.up("cloud", "agent")
            yield site
        finally:
            runner.run(region.down())


def as_user(site: Site, username: str, secret: str) -> RawClient:
    died = site.runner.get_loop().create_future()
    address = BrokerAddress("127.0.0.1", site.region.broker_port, died)
    connect = p.Connect(f"{username}/2", username=username, password=secret.encode())
    return RawClient(address, connect)


def test_a_device_with_its_password_is_answered_and_keeps_to_its_own_topics(
    tmp_path: Path,
) -> None:
    region = Guarded(tmp_path)
    with opened(region) as site:
        site.good()
        with as_user(site, "cam-2", "wrong") as client:
            assert client.connack is not None
            assert client.connack.reason == 0x86
        with as_user(site, "cam-2", "cam-2 secret") as client:
            asked = (
                "hy/v1/cam-1/down/ans", "hy/v1/cam-2/down/ans", "$share/workers/hy/v1/+/up/esc", "#",
            )  # fmt: skip
            client.send(p.Subscribe(1, tuple(p.Subscription(one, 1) for one in asked)))
            assert client.answer(p.Suback).reasons == (0x87, 1, 0x87, 0x87)
            for topic, reason in (("hy/v1/cam-1/up/esc", 0x87), ("hy/v1/cam-2/up/esc", 0)):
                client.send(p.Publish(topic, b"x", 1, packet_id=7))
                assert client.answer(p.Puback).reason == reason
            region.write_passwords("cam-1")
            os.kill(region.running["cloud"].process.pid, signal.SIGHUP)
            assert client.end_reason() == 0x87, "the worker has its broker read the files again"
        site.good()


def test_a_device_with_its_certificate_is_answered(tmp_path: Path) -> None:
    with opened(Guarded(tmp_path, certificates=True)) as site:
        site.good()


@pytest.mark.parametrize("kind", BROKER_KINDS)
def test_a_worker_with_a_certificate_of_its_own_comes_in(kind: BrokerKind, tmp_path: Path) -> None:
    make_certificates(tmp_path, "server", "worker")
    tls = {"tls_cert": tmp_path / "server.pem", "tls_key": tmp_path / "server.key"}
    broker = running_broker(
        kind, tmp_path / "broker", tls_ca=tmp_path / "ca.pem", acl_file=ACL, **tls
    )
    files = 'tls_ca = "ca.pem"\ntls_cert = "worker.pem"\ntls_key = "worker.key"'
    with broker as address:
        url = f"mqtts://127.0.0.1:{address.port}"
        config = f'[broker]\nkind = "url"\nurl = "{url}"\n[ingest]\n{files}\n[api]\nport = 0\n'
        with worker(tmp_path, config=config) as one:
            one.ready()  # its subscription was granted
            status, text = one.get("/v1/status")
    assert (status, json.loads(text)["broker"]) == (200, url)
